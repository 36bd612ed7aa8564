import type { Rendering } from './rendering.ts';

/** Text that is being put together. */
export class Output {
  readonly #parts: string[] = [];
  readonly #rendering: Rendering;

  constructor(rendering: Rendering) {
    this.#rendering = rendering;
  }

  write(text: string): void {
    this.#rendering.meter.text(text.length);
    this.#parts.push(text);
  }

  text(): string {
    return this.#parts.join('');
  }
}
