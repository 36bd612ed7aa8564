/** Generates key pairs, some of them in advance. */

import { generateKeyPair, type KeyPairText } from '#minion-protocol';

/** Generator of key pairs. Each pair is returned once and then discarded. */
export class KeyPairs {
  readonly #bits: number;
  readonly #prepared: number;
  readonly #make: (bits: number) => Promise<KeyPairText>;
  readonly #ready: KeyPairText[] = [];
  #making: Promise<void> | undefined;
  #isClosed = false;

  /**
   * Creates the generator.
   * @param prepared - number of key pairs to generate in advance. With 0, a key pair is generated
   * when it is needed.
   */
  constructor(
    { bits, prepared }: { readonly bits: number; readonly prepared: number },
    make: (bits: number) => Promise<KeyPairText> = generateKeyPair,
  ) {
    this.#bits = bits;
    this.#prepared = prepared;
    this.#make = make;
  }

  async take(): Promise<KeyPairText> {
    const ready = this.#ready.pop();
    this.prepare().catch(() => {
      // Ignore the error here: a later call that finds no prepared pair gets it.
    });
    return ready ?? this.#make(this.#bits);
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
      // The caller that needs a key pair gets the error.
    });
    this.#ready.length = 0;
  }

  async #fill(): Promise<void> {
    while (!this.#isClosed && this.#ready.length < this.#prepared) {
      this.#ready.push(await this.#make(this.#bits));
    }
  }
}
