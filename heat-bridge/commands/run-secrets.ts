/** Secret parameters of runs that go on: each minion has its own in its pillar, and in memory alone. */

import { randomBytes } from 'node:crypto';
import type { ExtPillar } from '#master';
import type { WireMap } from '#minion-protocol';
import type { Parameters } from './parameters.ts';

/** Where the minions of a run find what is secret. */
export interface SecretLease {
  /** Takes it out of the pillar. */
  forget(): void;
}

const noSecrets: SecretLease = { forget: () => {} };

/** A key that no run has; it says nothing by itself. */
export function createSecretReference(): string {
  return randomBytes(16).toString('hex');
}

/** Keeps them, and gives them to those that they are for. */
export class RunSecrets {
  readonly #ofMinions = new Map<string, Map<string, Parameters>>();

  /**
   * For as long as the run goes on.
   * @param reference - their key below `saltbridge:secrets` in the pillar; that of a run before
   * this one, to go on with it
   */
  keep(secret: Parameters, minions: readonly string[], reference: string): SecretLease {
    if (Object.keys(secret).length === 0) return noSecrets;
    for (const minion of minions) {
      const own = this.#ofMinions.get(minion) ?? new Map<string, Parameters>();
      this.#ofMinions.set(minion, own.set(reference, secret));
    }
    return {
      forget: () => {
        for (const minion of minions) this.#forget(minion, reference);
      },
    };
  }

  /** Each minion's part, as `saltbridge: secrets: <reference>: …`. */
  get pillar(): ExtPillar {
    return {
      name: 'bridge',
      provide: async ({ id }) => {
        const own = this.#ofMinions.get(id);
        if (own === undefined) return undefined;
        // What the schema of a command describes is JSON, which is part of what pillar holds.
        const secrets = Object.fromEntries(own) as WireMap;
        return { saltbridge: { secrets } };
      },
    };
  }

  #forget(minion: string, reference: string): void {
    const own = this.#ofMinions.get(minion);
    own?.delete(reference);
    if (own?.size === 0) this.#ofMinions.delete(minion);
  }
}
