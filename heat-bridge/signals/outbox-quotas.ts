/** Quotas of the outbox, so that one guest or stack leaves room for others. */

/** Signals that are not yet delivered. */
export interface OutboxQuotaOptions {
  /** Of one minion. */
  readonly perMinion: number;
  /** Of one stack of one owner. */
  readonly perStack: number;
  /** Of the handles of one owner; those of the local interface have none. */
  readonly perOwner: number;
  /** The same, bytes as they are stored. */
  readonly ownerBytes: number;
  /** Of one minion, for handles that are not registered yet. */
  readonly heldPerMinion: number;
  /** In all. */
  readonly entries: number;
  /** In all, bytes as they are stored. */
  readonly bytes: number;
}

/** What a record counts against. */
export interface QuotaUse {
  readonly minion: string;
  /** `undefined`: it has no handle yet. */
  readonly stack?: string | undefined;
  readonly owner?: string | undefined;
  readonly bytes: number;
}

/** Which quota is used up. */
export type FullQuota = 'entries' | 'held' | 'perMinion' | 'perOwner' | 'perStack' | 'room';

/** The part of `bytes` that signals without a handle may have. */
const heldShare = 0.25;

/** How much of each quota is used. */
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

  /** Takes room for a record; says what is full where there is none. */
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

  /** Takes it in any case: what was accepted before counts. */
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

/** Stacks of two owners may have the same name. */
function stackKey({ owner, stack }: QuotaUse): string {
  return JSON.stringify([owner ?? null, stack]);
}

function addToCount(counts: Map<string, number>, name: string, by: number): void {
  const count = (counts.get(name) ?? 0) + by;
  if (count === 0) counts.delete(name);
  else counts.set(name, count);
}
