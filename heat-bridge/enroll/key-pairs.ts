/** Key pairs, some prepared in advance. */

import { generateKeyPair, type KeyPairText } from '#minion-protocol';

/** Key pairs, each given out once and then forgotten. */
export class KeyPairs {
  readonly #bits: number;
  readonly #prepared: number;
  readonly #make: (bits: number) => Promise<KeyPairText>;
  readonly #ready: KeyPairText[] = [];
  #making: Promise<void> | undefined;
  #isClosed = false;

  /** @param prepared how many lie ready; 0: each is made when it is asked for */
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
      // The next one who finds none lying ready is told.
    });
    return ready ?? this.#make(this.#bits);
  }

  /** Makes what is missing, one after the other; resolves when as many lie ready as shall. */
  prepare(): Promise<void> {
    this.#making ??= this.#fill().finally(() => {
      this.#making = undefined;
    });
    return this.#making;
  }

  /** Waits for a pair that is being made, and forgets those that lie ready. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#making?.catch(() => {
      // Whoever asks for a pair has it made, and is told.
    });
    this.#ready.length = 0;
  }

  async #fill(): Promise<void> {
    while (!this.#isClosed && this.#ready.length < this.#prepared) {
      this.#ready.push(await this.#make(this.#bits));
    }
  }
}
