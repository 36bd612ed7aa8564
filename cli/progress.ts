import type { OutputStream } from './context.ts';

/** One line on a terminal that says how far something is. Nothing where there is no terminal. */
export class Progress {
  readonly #stream: OutputStream;
  #isShown = false;

  constructor(stream: OutputStream) {
    this.#stream = stream;
  }

  /** Shows the line, in place of the one before. */
  show(text: string): void {
    if (this.#stream.isTTY !== true) return;
    this.#stream.write(`\r\x1b[K${text}`);
    this.#isShown = true;
  }

  /** Takes the line away, so that other output can begin at its place. */
  clear(): void {
    if (this.#isShown) this.#stream.write('\r\x1b[K');
    this.#isShown = false;
  }
}
