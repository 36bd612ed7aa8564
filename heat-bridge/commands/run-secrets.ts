/**
 * Secret parameters of active runs. Each minion gets its own in its pillar. They are in memory
 * only.
 */

import { randomBytes } from 'node:crypto';
import type { ExtPillar } from '#master';
import type { WireMap } from '#minion-protocol';
import type { Parameters } from './parameters.ts';

/** Secrets of a run in the pillars of its minions. */
export interface SecretLease {
  /** Removes the secrets from the pillars. */
  forget(): void;
}

const noSecrets: SecretLease = { forget: () => {} };

/** Returns a random reference, which reveals nothing about the run. */
export function createSecretReference(): string {
  return randomBytes(16).toString('hex');
}

/** Stores secrets, and provides them to their minions. */
export class RunSecrets {
  readonly #ofMinions = new Map<string, Map<string, Parameters>>();

  /**
   * Provides the secrets of a run until they are released.
   * @param reference - key below `saltbridge:secrets` in the pillar; for a resumed run, its
   * previous reference
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

  /** Pillar with each minion's secrets, as `saltbridge: secrets: <reference>: …`. */
  get pillar(): ExtPillar {
    return {
      name: 'bridge',
      provide: async ({ id }) => {
        const own = this.#ofMinions.get(id);
        if (own === undefined) return undefined;
        // Values that a command's schema describes are JSON, which pillar data can contain.
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
