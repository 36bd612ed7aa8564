/**
 * Quotas of the outbox. They prevent one minion or stack from using the whole capacity of the
 * outbox.
 */

import { Budget, releaseAll, tryTakeAll } from '#runtime';
import { bridgeLimits } from '../limits.ts';

/** Limits on pending signals. */
export interface OutboxQuotaOptions {
  /** Maximum number of pending signals of one minion. */
  readonly perMinion: number;
  /** Maximum number of pending signals for the handles of one stack of one owner. */
  readonly perStack: number;
  /**
   * Maximum number of pending signals for the handles of one owner. Handles that were registered on
   * the local socket have no owner.
   */
  readonly perOwner: number;
  /** Maximum stored size of pending signals for the handles of one owner, in bytes. */
  readonly ownerBytes: number;
  /**
   * Maximum number of held signals of one minion. A signal is held while no handle is registered
   * for it.
   */
  readonly heldPerMinion: number;
  /** Maximum number of pending signals in total. */
  readonly entries: number;
  /** Maximum stored size of pending signals in total, in bytes. */
  readonly bytes: number;
}

/** Fields of a stored signal that determine which quotas it uses, and how much of them. */
export interface QuotaUse {
  readonly minion: string;
  /** Stack of the handle. `undefined` if no handle is registered yet. */
  readonly stack?: string | undefined;
  readonly owner?: string | undefined;
  readonly bytes: number;
}

/**
 * Quota that is exhausted. `held` is the quota `heldPerMinion`. `perOwner` is the quota `perOwner`
 * or `ownerBytes`. `room` is the quota `bytes`, or the fraction of it that held signals may use.
 */
export type FullQuota = 'entries' | 'held' | 'perMinion' | 'perOwner' | 'perStack' | 'room';

/** Maximum fraction of the quota `bytes` that held signals may use. */
const heldShare = 0.25;

/** Returns the project of a minion. */
type ProjectOf = (minion: string) => string | undefined;

/** Amount that one record uses of one quota, and the owner that uses it. */
interface Part {
  readonly quota: FullQuota;
  readonly budget: Budget;
  readonly owner: string;
  readonly amount: number;
}

/** Current use of each quota. */
export class OutboxQuotas {
  readonly #minions: Budget;
  readonly #held: Budget;
  readonly #heldBytes: Budget;
  readonly #stacks: Budget;
  readonly #owners: Budget;
  readonly #ownerBytes: Budget;
  readonly #entries: Budget;
  readonly #bytes: Budget;

  /**
   * Project under which the size of a minion's held signals is counted. With `undefined`, it is
   * counted for the minion itself. The key is the minion id. Only minions with held signals have an
   * entry.
   */
  readonly #heldProjects = new Map<string, string | undefined>();
  readonly #projectOf: ProjectOf;

  /**
   * Creates the quotas.
   * @param projectOf - returns the project of a minion. Default: no minion belongs to a project
   */
  constructor(options: OutboxQuotaOptions, projectOf: ProjectOf = () => undefined) {
    const { perMinion, perStack, perOwner, ownerBytes, heldPerMinion, entries, bytes } = options;
    this.#projectOf = projectOf;
    this.#minions = new Budget(bridgeLimits.signalsOfMinion, { perOwner: perMinion });
    this.#held = new Budget(bridgeLimits.heldSignals, { perOwner: heldPerMinion });
    this.#heldBytes = new Budget(bridgeLimits.heldSignalBytes, {
      ...bridgeLimits.heldSignalBytes,
      total: bytes * heldShare,
    });
    this.#stacks = new Budget(bridgeLimits.signalsOfStack, { perOwner: perStack });
    this.#owners = new Budget(bridgeLimits.signalsOfOwner, { perOwner });
    this.#ownerBytes = new Budget(bridgeLimits.signalBytesOfOwner, { perOwner: ownerBytes });
    this.#entries = new Budget(bridgeLimits.signals, { ...bridgeLimits.signals, total: entries });
    this.#bytes = new Budget(bridgeLimits.signalBytes, {
      ...bridgeLimits.signalBytes,
      total: bytes,
    });
  }

  /** Counts a record. If a quota is exhausted, counts nothing and returns the quota. */
  tryTake(record: QuotaUse): FullQuota | undefined {
    const full = tryTakeAll(this.#partsOf(record));
    if (full !== undefined) return full.quota;
    this.#noteHeldOwner(record.minion);
    return undefined;
  }

  /** Counts a record that was accepted earlier, even if a limit is exceeded. */
  take(record: QuotaUse): void {
    for (const { budget, owner, amount } of this.#partsOf(record)) budget.take(owner, amount);
    this.#noteHeldOwner(record.minion);
  }

  release(record: QuotaUse): void {
    releaseAll(this.#partsOf(record));
    this.#noteHeldOwner(record.minion);
  }

  /**
   * Returns the quotas that a record uses, in the order in which they are checked. Each has its
   * budget, and the amount to take from the budget.
   */
  #partsOf(record: QuotaUse): readonly Part[] {
    const { minion, stack, owner, bytes } = record;
    const sharer = sharerOf(record);
    return [
      { quota: 'perMinion', budget: this.#minions, owner: minion, amount: 1 },
      ...(stack === undefined ? this.#heldParts(record) : []),
      ...(stack === undefined
        ? []
        : [
            {
              quota: 'perStack',
              budget: this.#stacks,
              owner: stackKey(record),
              amount: 1,
            } as const,
          ]),
      ...(owner === undefined ? [] : this.#ownerParts(owner, bytes)),
      { quota: 'entries', budget: this.#entries, owner: sharer, amount: 1 },
      { quota: 'room', budget: this.#bytes, owner: sharer, amount: bytes },
    ];
  }

  #heldParts({ minion, bytes }: QuotaUse): readonly Part[] {
    return [
      { quota: 'held', budget: this.#held, owner: minion, amount: 1 },
      { quota: 'room', budget: this.#heldBytes, owner: this.#heldOwnerOf(minion), amount: bytes },
    ];
  }

  /**
   * Returns the project of a minion. While the minion has held signals, this project stays the same.
   */
  projectOf(minion: string): string | undefined {
    if (this.#heldProjects.has(minion)) return this.#heldProjects.get(minion);
    return this.#projectOf(minion);
  }

  #heldOwnerOf(minion: string): string {
    const project = this.projectOf(minion);
    return project === undefined ? `minion ${minion}` : `project ${project}`;
  }

  /**
   * Updates `#heldProjects`. While the minion has held signals, its entry stays the same, even if
   * the minion changes its project. The sizes are thus subtracted from the quota to which they were added.
   */
  #noteHeldOwner(minion: string): void {
    if (this.#held.heldBy(minion) === 0) this.#heldProjects.delete(minion);
    else this.#heldProjects.set(minion, this.projectOf(minion));
  }

  #ownerParts(owner: string, bytes: number): readonly Part[] {
    return [
      { quota: 'perOwner', budget: this.#owners, owner, amount: 1 },
      { quota: 'perOwner', budget: this.#ownerBytes, owner, amount: bytes },
    ];
  }
}

/**
 * Returns the owner under which a record is counted in the quotas `entries` and `bytes`. This is
 * the owner of the handle. If there is none, it is the stack of the handle. If there is no stack
 * either, it is the minion.
 */
function sharerOf(record: QuotaUse): string {
  const { owner, stack, minion } = record;
  if (owner !== undefined) return `owner ${owner}`;
  return stack === undefined ? `minion ${minion}` : `stack ${stackKey(record)}`;
}

/** Returns a key for a stack. It is unique even if several owners use the same name for a stack. */
function stackKey({ owner, stack }: QuotaUse): string {
  return JSON.stringify([owner ?? null, stack]);
}
