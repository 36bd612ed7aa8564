/** How many runs of a command go on at a time. */
import type { CommandDefinition } from '../catalog/definition.ts';
import { BridgeError } from '../errors.ts';

/** Counts runs by command and minion. */
export class RunLimits {
  readonly #counts = new Map<string, number>();

  /**
   * Takes a place for a run. @returns gives it back
   * @throws BridgeError ERR_COMMAND_BUSY
   */
  enter({ name, concurrency = {} }: CommandDefinition, minions: readonly string[]): () => void {
    const { perTarget = Infinity, total = Infinity } = concurrency;
    const places = [
      { key: name, limit: total },
      ...minions.map((minion) => ({ key: `${name} ${minion}`, limit: perTarget })),
    ].filter(({ limit }) => limit !== Infinity);
    if (places.some(({ key, limit }) => this.#of(key) >= limit)) {
      throw new BridgeError('ERR_COMMAND_BUSY', `${name}: as many runs as may be are under way`);
    }
    for (const { key } of places) this.#counts.set(key, this.#of(key) + 1);
    return () => {
      for (const { key } of places.splice(0)) this.#leave(key);
    };
  }

  #of(key: string): number {
    return this.#counts.get(key) ?? 0;
  }

  #leave(key: string): void {
    const left = this.#of(key) - 1;
    if (left > 0) this.#counts.set(key, left);
    else this.#counts.delete(key);
  }
}
