/** Quotas of the outbox, which prevent one guest or stack from using all its capacity. */

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
  /** Maximum number of held signals of one minion, for which no handle is registered yet. */
  readonly heldPerMinion: number;
  /** Maximum number of pending signals in total. */
  readonly entries: number;
  /** Maximum stored size of pending signals in total, in bytes. */
  readonly bytes: number;
}

/** Fields of a record that determine which quotas it uses. */
export interface QuotaUse {
  readonly minion: string;
  /** Stack of the handle. `undefined` if no handle is registered yet. */
  readonly stack?: string | undefined;
  readonly owner?: string | undefined;
  readonly bytes: number;
}

/** Quota that is exhausted. */
export type FullQuota = 'entries' | 'held' | 'perMinion' | 'perOwner' | 'perStack' | 'room';

/** Maximum share of `bytes` that held signals may use. */
const heldShare = 0.25;

/** Current use of all quotas. */
export class OutboxQuotas {
  readonly #options: OutboxQuotaOptions;
  readonly #minions = new Map<string, number>();
  readonly #stacks = new Map<string, number>();
  readonly #owners = new Map<string, number>();
  readonly #ownerBytes = new Map<string, number>();
  readonly #held = new Map<string, number>();
  #entries = 0;
  #bytes = 0;
  #heldBytes = 0;

  constructor(options: OutboxQuotaOptions) {
    this.#options = options;
  }

  /** Counts a record. If a quota is exhausted, counts nothing and returns the quota. */
  tryTake(record: QuotaUse): FullQuota | undefined {
    const { perMinion, entries, bytes } = this.#options;
    if ((this.#minions.get(record.minion) ?? 0) >= perMinion) return 'perMinion';
    const full = record.stack === undefined ? this.#fullOfHeld(record) : this.#fullOfOwner(record);
    if (full !== undefined) return full;
    if (this.#entries >= entries) return 'entries';
    if (this.#bytes + record.bytes > bytes) return 'room';
    this.take(record);
    return undefined;
  }

  #fullOfHeld(record: QuotaUse): FullQuota | undefined {
    const { bytes, heldPerMinion } = this.#options;
    if ((this.#held.get(record.minion) ?? 0) >= heldPerMinion) return 'held';
    return this.#heldBytes + record.bytes > bytes * heldShare ? 'room' : undefined;
  }

  #fullOfOwner(record: QuotaUse): FullQuota | undefined {
    const { perOwner, ownerBytes, perStack } = this.#options;
    if ((this.#stacks.get(stackKey(record)) ?? 0) >= perStack) return 'perStack';
    const { owner } = record;
    if (owner === undefined) return undefined;
    const isFull =
      (this.#owners.get(owner) ?? 0) >= perOwner ||
      (this.#ownerBytes.get(owner) ?? 0) + record.bytes > ownerBytes;
    return isFull ? 'perOwner' : undefined;
  }

  /** Counts a record that was accepted earlier, even if a limit is exceeded. */
  take(record: QuotaUse): void {
    this.#count(record, 1);
  }

  release(record: QuotaUse): void {
    this.#count(record, -1);
  }

  #count(record: QuotaUse, by: 1 | -1): void {
    const { minion, stack, owner, bytes } = record;
    addToCount(this.#minions, minion, by);
    if (stack === undefined) {
      addToCount(this.#held, minion, by);
      this.#heldBytes += by * bytes;
    } else {
      addToCount(this.#stacks, stackKey(record), by);
    }
    if (owner !== undefined) {
      addToCount(this.#owners, owner, by);
      addToCount(this.#ownerBytes, owner, by * bytes);
    }
    this.#entries += by;
    this.#bytes += by * bytes;
  }
}

/** Returns a key for a stack. It is unique even if several owners use the same name for a stack. */
function stackKey({ owner, stack }: QuotaUse): string {
  return JSON.stringify([owner ?? null, stack]);
}

function addToCount(counts: Map<string, number>, name: string, by: number): void {
  const count = (counts.get(name) ?? 0) + by;
  if (count === 0) counts.delete(name);
  else counts.set(name, count);
}
