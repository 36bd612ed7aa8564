/** How much may lie in the outbox, so that one guest or stack leaves room for the others. */
import type { OutboxRecord } from './outbox-record.ts';

/** Signals that are not yet delivered. */
export interface QuotaOptions {
  /** Of one minion. */
  readonly perMinion: number;
  /** Of one stack. */
  readonly perStack: number;
  /** In all. */
  readonly entries: number;
  /** In all, bytes as they are stored. */
  readonly bytes: number;
}

/** What a record counts against. */
export type Counted = Pick<OutboxRecord, 'minion' | 'stack'> & { readonly bytes: number };

/** Which quota is used up. */
export type FullQuota = 'entries' | 'perMinion' | 'perStack' | 'room';

/** See above. */
export class Quotas {
  readonly #options: QuotaOptions;
  readonly #minions = new Map<string, number>();
  readonly #stacks = new Map<string, number>();
  #entries = 0;
  #bytes = 0;

  constructor(options: QuotaOptions) {
    this.#options = options;
  }

  /** Takes room for a record; says what is full where there is none. */
  tryTake(record: Counted): FullQuota | undefined {
    const { perMinion, perStack, entries, bytes } = this.#options;
    if ((this.#minions.get(record.minion) ?? 0) >= perMinion) return 'perMinion';
    if ((this.#stacks.get(record.stack) ?? 0) >= perStack) return 'perStack';
    if (this.#entries >= entries) return 'entries';
    if (this.#bytes + record.bytes > bytes) return 'room';
    this.take(record);
    return undefined;
  }

  /** Takes it in any case: what was accepted before counts. */
  take(record: Counted): void {
    this.#count(record, 1);
  }

  give(record: Counted): void {
    this.#count(record, -1);
  }

  #count({ minion, stack, bytes }: Counted, by: 1 | -1): void {
    add(this.#minions, minion, by);
    add(this.#stacks, stack, by);
    this.#entries += by;
    this.#bytes += by * bytes;
  }
}

function add(counts: Map<string, number>, name: string, by: number): void {
  const count = (counts.get(name) ?? 0) + by;
  if (count === 0) counts.delete(name);
  else counts.set(name, count);
}
