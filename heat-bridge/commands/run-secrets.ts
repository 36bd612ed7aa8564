/**
 * Secret parameters of active runs. Each minion of a run receives them in its pillar. They are kept
 * in memory only.
 */

import { randomBytes } from 'node:crypto';
import type { ExtPillar } from '#master';
import type { WireMap } from '#minion-protocol';
import { Budget, messageSizeOf, releaseAll, tryTakeAll } from '#runtime';
import { BridgeError } from '../errors.ts';
import { bridgeLimits } from '../limits.ts';
import type { Parameters } from './parameters.ts';

/**
 * Secrets of one run, for which bytes are reserved. The pillars of the run's minions contain them
 * between `show` and `forget`.
 */
export interface SecretLease {
  /**
   * Adds the secrets to the pillars.
   * @param reference - key below `saltbridge:secrets` in the pillar; for a resumed run, the
   * reference that it had before
   * @param lost - minions of the run whose pillars do not get the secrets
   */
  show(reference: string, lost: ReadonlySet<string>): void;
  /** Removes the secrets from the pillars, and ends the reservation of bytes for them. */
  forget(): void;
}

/** The run that reserves bytes for its secrets. */
interface SecretOwner {
  /** Name of the caller. */
  readonly caller: string;
  readonly minions: readonly string[];
  /** Whether an earlier process admitted the run. The limits then do not reject it. */
  readonly isResumed: boolean;
}

const noSecrets: SecretLease = { show: () => {}, forget: () => {} };

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
  readonly #bytesOfMinions = new Budget(bridgeLimits.secretsOfMinion);
  readonly #bytesOfCallers = new Budget(bridgeLimits.secretsOfCaller);

  /**
   * Reserves bytes for the secrets of a run in the pillar of each of its minions, until `forget` is
   * called.
   * @throws BridgeError ERR_COMMAND_BUSY if a limit on these bytes is reached
   */
  reserve(secret: Parameters, run: SecretOwner): SecretLease {
    if (Object.keys(secret).length === 0) return noSecrets;
    const { minions } = run;
    const release = this.#takeBytes(run, messageSizeOf(secret));
    let shown: string | undefined;
    return {
      show: (reference, lost) => {
        shown = reference;
        for (const minion of minions) {
          if (lost.has(minion)) continue;
          const own = this.#ofMinions.get(minion) ?? new Map<string, Parameters>();
          this.#ofMinions.set(minion, own.set(reference, secret));
        }
      },
      forget: () => {
        release();
        if (shown !== undefined) for (const minion of minions) this.#forget(minion, shown);
      },
    };
  }

  /** Removes the secrets of all runs from the pillar of a minion, whose key has ended. */
  loseKey(minion: string): void {
    this.#ofMinions.delete(minion);
  }

  /**
   * Counts the bytes of a run's secrets on each of its minions. The bytes count toward two limits:
   * the limit of the minion, and the limit of the caller on this minion.
   * @returns a function that releases the bytes
   * @throws BridgeError ERR_COMMAND_BUSY if a limit is reached, except for a resumed run
   */
  #takeBytes({ caller, minions, isResumed }: SecretOwner, bytes: number): () => void {
    const parts = minions.flatMap((minion) => [
      {
        budget: this.#bytesOfCallers,
        owner: JSON.stringify([caller, minion]),
        amount: bytes,
      },
      { budget: this.#bytesOfMinions, owner: minion, amount: bytes },
    ]);
    if (isResumed) for (const { budget, owner } of parts) budget.take(owner, bytes);
    else if (tryTakeAll(parts) !== undefined) {
      throw new BridgeError(
        'ERR_COMMAND_BUSY',
        'the secret parameters of the active runs on one minion are too large; retry later, or send smaller ones',
      );
    }
    return () => releaseAll(parts);
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
