import type { Asker } from '../swarm/minion.ts';
import { Dealer } from '../swarm/zmtp-client.ts';

/** A connection to the master. If it was lost, the next request opens a new one. */
export class Line implements Asker {
  readonly #port: number;
  readonly #host: string;
  readonly #answerMs: number | undefined;
  #dealer: Dealer | undefined;

  /**
   * @param answerMs - time to wait for a reply before the connection is closed, in milliseconds.
   * Default: unlimited
   */
  constructor(port: number, host = '127.0.0.1', answerMs?: number) {
    this.#port = port;
    this.#host = host;
    this.#answerMs = answerMs;
  }

  async ask(request: Uint8Array): Promise<Buffer> {
    if (this.#dealer === undefined || this.#dealer.isClosed) {
      this.#dealer = new Dealer(this.#port, undefined, this.#host);
    }
    const dealer = this.#dealer;
    if (this.#answerMs === undefined) return dealer.ask(request);
    const timer = setTimeout(() => dealer.close(), this.#answerMs);
    return dealer.ask(request).finally(() => clearTimeout(timer));
  }

  close(): void {
    this.#dealer?.close();
  }
}
