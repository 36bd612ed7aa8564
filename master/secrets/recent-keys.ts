import { type CrypticleKey, parseKeyString } from '../../minion-protocol/index.ts';

/** Some 3 KB each. */
const maxKept = 2048;

/** Keys of those who were heard last, ready: making one ready takes longer than opening a request. */
export class RecentKeys {
  /** The one that was used last is the last. */
  readonly #keys = new Map<string, CrypticleKey>();

  /** The minion's key with this text. */
  ready(id: string, text: string): CrypticleKey {
    const kept = this.#keys.get(id);
    if (kept === undefined) this.#makeRoom();
    else this.#keys.delete(id);
    const key = kept?.text === text ? kept : parseKeyString(text);
    this.#keys.set(id, key);
    return key;
  }

  forget(id: string): void {
    this.#keys.delete(id);
  }

  #makeRoom(): void {
    if (this.#keys.size < maxKept) return;
    for (const longestUnused of this.#keys.keys()) {
      this.#keys.delete(longestUnused);
      return;
    }
  }
}
