import type { Asker } from '../swarm/minion.ts';
import { Dealer } from '../swarm/zmtp-client.ts';

/** A connection that is made anew when the last one was lost. */
export class Line implements Asker {
  readonly #port: number;
  #dealer: Dealer | undefined;

  constructor(port: number) {
    this.#port = port;
  }

  ask(request: Uint8Array): Promise<Buffer> {
    if (this.#dealer === undefined || this.#dealer.isClosed) this.#dealer = new Dealer(this.#port);
    return this.#dealer.ask(request);
  }
}
