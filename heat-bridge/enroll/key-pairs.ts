/** Generates key pairs, some of them in advance. */

import type { KeyPairText } from '#minion-protocol';

/** Generator of key pairs. Each pair is returned once and then discarded. */
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
   * @param prepared - number of pairs to generate in advance; with 0, each pair is generated when
   * it is needed
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
   * Returns a key pair.
   * @param owner - project that needs the key pair. The rate of generation is limited for each
   * project
   * @throws LimitExceeded
   */
  async take(owner: string): Promise<KeyPairText> {
    const ready = this.#ready.pop();
    this.prepare().catch(() => {
      // Ignore the error here: a call that finds no prepared pair receives it.
    });
    return ready ?? this.#make(this.#bits, `project ${owner}`);
  }

  /**
   * Generates the missing pairs, one after the other. Resolves when the required number is ready.
   */
  prepare(): Promise<void> {
    this.#making ??= this.#fill().finally(() => {
      this.#making = undefined;
    });
    return this.#making;
  }

  /** Waits for the pair that is being generated, and discards all pairs. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#making?.catch(() => {
      // A call that needs a key pair receives the error.
    });
    this.#ready.length = 0;
  }

  async #fill(): Promise<void> {
    while (!this.#isClosed && this.#ready.length < this.#prepared) {
      this.#ready.push(await this.#make(this.#bits, 'bridge'));
    }
  }
}
