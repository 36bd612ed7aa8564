import type { Master } from '#master';

/**
 * Deletes minions' keys one after the other, and accepts each key again when its minion signs in.
 */
export class KeyDeletions {
  readonly deleted: Set<string> = new Set();
  readonly #master: Master;
  readonly #ids: readonly string[];
  readonly #end = new AbortController();
  #ticker: NodeJS.Timeout | undefined;
  #count = 0;
  #accepting: Promise<void> = Promise.resolve();

  constructor(master: Master, ids: readonly string[]) {
    this.#master = master;
    this.#ids = ids;
  }

  get count(): number {
    return this.#count;
  }

  start(everyMs: number, onError: (error: unknown) => void): void {
    this.#accepting = this.#acceptAgain();
    this.#accepting.catch(onError);
    this.#ticker = setInterval(() => {
      const id = this.#ids[(this.#count * 53) % this.#ids.length] ?? '';
      this.#count += 1;
      this.deleted.add(id);
      this.#master.keys.delete({ match: id }).catch(onError);
    }, everyMs);
  }

  /** Stops deleting keys. Deleted keys are still accepted again. */
  pause(): void {
    clearInterval(this.#ticker);
  }

  async stop(): Promise<void> {
    this.pause();
    this.#end.abort();
    await this.#accepting;
  }

  async #acceptAgain(): Promise<void> {
    const { events, keys } = this.#master;
    for await (const { data } of await events.subscribe({ match: 'salt/auth' }, this.#end.signal)) {
      if (data.act === 'pend') await keys.accept({ match: String(data.id) });
    }
  }
}
