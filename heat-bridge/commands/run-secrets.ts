/**
 * Secret parameters of active runs. Each minion of a run receives them in its pillar. They are kept
 * in memory only.
 */

import { randomBytes } from 'node:crypto';
import type { ExtPillar } from '#master';
import type { WireMap } from '#minion-protocol';
import type { Parameters } from './parameters.ts';

/** Secrets of one run, while they are part of the pillars of its minions. */
export interface SecretLease {
  /** Removes the secrets from the pillars. */
  forget(): void;
}

const noSecrets: SecretLease = { forget: () => {} };

/**
 * Returns a random reference to the secrets of a run: their key in the pillar. It reveals nothing
 * about the run.
 */
export function createSecretReference(): string {
  return randomBytes(16).toString('hex');
}

/** Stores the secrets of runs, and provides them as pillar data. */
export class RunSecrets {
  readonly #ofMinions = new Map<string, Map<string, Parameters>>();

  /**
   * Adds the secrets of a run to the pillars of its minions, until `forget` is called.
   * @param reference - key below `saltbridge:secrets` in the pillar; for a resumed run, the
   * reference that it had before
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

  /** Pillar provider. It returns a minion's secrets as `saltbridge: secrets: <reference>: …`. */
  get pillar(): ExtPillar {
    return {
      name: 'bridge',
      provide: async ({ id }) => {
        const own = this.#ofMinions.get(id);
        if (own === undefined) return undefined;
        // The values are JSON, because the schemas of commands describe them. Pillar data can
        // contain JSON.
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
