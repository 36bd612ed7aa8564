/** Key pairs, some of which are generated in advance. */

import type { KeyPairText } from '#minion-protocol';

/** Generator of key pairs, each of which is handed out once and then discarded. */
export class KeyPairs {
  readonly #bits: number;
  readonly #prepared: number;
  readonly #make: (bits: number, owner: string) => Promise<KeyPairText>;
  readonly #ready: KeyPairText[] = [];
  #making: Promise<void> | undefined;
  #isClosed = false;

  /**
   * Creates the generator.
   * @param make - generates a pair for an owner
   * @param prepared - number of pairs to generate in advance; 0 generates each on demand
   */
  constructor(
    { bits, prepared }: { readonly bits: number; readonly prepared: number },
    make: (bits: number, owner: string) => Promise<KeyPairText>,
  ) {
    this.#bits = bits;
    this.#prepared = prepared;
    this.#make = make;
  }

  /**
   * Returns a pair.
   * @param owner - project that shares the generator with others
   * @throws LimitExceeded
   */
  async take(owner: string): Promise<KeyPairText> {
    const ready = this.#ready.pop();
    this.prepare().catch(() => {
      // A later call without a ready pair reports the error.
    });
    return ready ?? this.#make(this.#bits, `project ${owner}`);
  }

  /** Generates missing pairs one after the other. Resolves when enough are ready. */
  prepare(): Promise<void> {
    this.#making ??= this.#fill().finally(() => {
      this.#making = undefined;
    });
    return this.#making;
  }

  /** Waits for a pair in generation, and discards the ready ones. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#making?.catch(() => {
      // The caller that needs a pair generates it and gets the error.
    });
    this.#ready.length = 0;
  }

  async #fill(): Promise<void> {
    while (!this.#isClosed && this.#ready.length < this.#prepared) {
      this.#ready.push(await this.#make(this.#bits, 'bridge'));
    }
  }
}
