/**
 * Records the latest policy decisions about minions. They are counted in memory and written to the
 * store periodically.
 */

import { hash } from 'node:crypto';
import type { Logger } from 'pino';
import Type from 'typebox';
import type { Decision } from '#acl';
import { Mutex, TokenBuckets } from '#runtime';
import { defineRow, fromJson, jsonField, type Operation, type Store, Texts } from '#store';
import type { RecordedDecision } from '../api/index.ts';
import type { Seal } from '../auth/index.ts';
import {
  type DecisionSubject,
  keyOf,
  keyOfQuestion,
  type MinionQuestion,
  type Sample,
  sampleOf,
  storedSample,
  subjectOf,
} from './decision-samples.ts';
import { userLimits } from './limits.ts';

export interface DecisionRecorderOptions {
  readonly store: Store;
  /** Encryption of the stored records, which is needed because samples contain data of minions. */
  readonly seal: Seal;
  /**
   * Returns whether samples of events and arguments contain the values that minions sent, or only
   * the structure of these values.
   */
  readonly storesValues: () => boolean;
  readonly now: () => number;
  readonly log: Logger;
}

/** Record of equal decisions about one minion, with their number and times. */
interface Count extends Omit<RecordedDecision, 'samples'> {
  samples: RecordedDecision['samples'];
  isWhole: boolean;
  bytes: number;
  firstAt: number;
  lastAt: number;
  count: number;
  readonly shapes: Set<string>;
  isDirty: boolean;
  /**
   * Value of `lastAt` when the record was last placed at the end of the map. A higher `lastAt`
   * means that the record was used since then. `#forgetOldest` then places it at the end again, and
   * does not remove it.
   */
  placedAt: number;
}

const Text = Type.String();

/** Codec of the rows `decisions/<name>`, one for each record. The rows are encrypted. */
const decisionRow = defineRow({
  name: 'decision',
  schema: Type.Object({
    minion: Text,
    action: Type.Unsafe<RecordedDecision['action']>(Text),
    texts: Texts,
    owner: Type.Optional(Text),
    minions: Type.Optional(Texts),
    effect: Type.Unsafe<RecordedDecision['effect']>(Text),
    rule: Text,
    samples: Type.Unsafe<RecordedDecision['samples']>(Type.Array(Type.Unknown())),
    isWhole: Type.Boolean(),
    bytes: Type.Number(),
    firstAt: Type.Number(),
    lastAt: Type.Number(),
    count: Type.Number(),
    shapes: Texts,
  }),
  packed: { samples: jsonField },
  unversioned: fromJson,
});

/**
 * Maximum number of distinct records. If it is exceeded, the least recently used record is evicted.
 */
const maxDecisions = 5_000;
/** Maximum number of records of one minion, so that a minion cannot evict the records of others. */
const maxOfMinion = 200;
const maxShapes = 8;
const flushEveryMs = 30_000;
const prefix = ['decisions'];

export class DecisionRecorder {
  readonly #options: DecisionRecorderOptions;
  readonly #counts = new Map<string, Count>();
  readonly #ofMinion = new Map<string, number>();
  readonly #rate: TokenBuckets;
  /** Names of the stored rows whose records were evicted. The next write deletes these rows. */
  readonly #gone = new Set<string>();
  #missed = 0;
  #timer: NodeJS.Timeout | undefined;
  readonly #writing = new Mutex();

  private constructor(options: DecisionRecorderOptions) {
    this.#options = options;
    this.#rate = new TokenBuckets(userLimits.newDecisions, options.now);
  }

  /** Creates the recorder, and loads the records from the store. */
  static async open(options: DecisionRecorderOptions): Promise<DecisionRecorder> {
    const recorder = new DecisionRecorder(options);
    for await (const { key, value } of options.store.list(prefix)) {
      const row = decisionRow.decode({ key, value: options.seal.open(value) });
      recorder.#add({ ...row, shapes: new Set(row.shapes), isDirty: false, placedAt: row.lastAt });
    }
    recorder.#timer = setInterval(() => {
      recorder.flush().catch((error: unknown) => {
        options.log.warn(
          { err: error },
          'cannot store the recorded decisions, which `saltbridge acl learn` and `saltbridge acl replay` read',
        );
      });
    }, flushEveryMs).unref();
    return recorder;
  }

  /**
   * Number of decisions without a record: a limit prevented the record, or the record was evicted.
   */
  get missed(): number {
    return this.#missed;
  }

  note(question: MinionQuestion, decision: Decision): void {
    const now = this.#options.now();
    const known =
      this.#counts.get(keyOfQuestion(question, decision)) ??
      this.#begin(subjectOf(question, decision), now);
    if (known === undefined) return;
    known.count += 1;
    known.lastAt = now;
    known.isDirty = true;
    if (question.action === 'signal') {
      known.bytes = Math.max(known.bytes, question.resource.bytes?.() ?? 0);
    }
    const sample = known.isWhole ? sampleOf(question) : undefined;
    if (sample !== undefined) this.#look(known, sample);
  }

  /**
   * Returns the records whose latest decision was made at or after this time.
   * @param since - milliseconds since 1970. Default: 0, for all records
   */
  list(since = 0): RecordedDecision[] {
    return [...this.#counts.values()]
      .filter(({ lastAt }) => lastAt >= since)
      .map(({ shapes: _shapes, isDirty: _isDirty, placedAt: _placedAt, ...record }) => record);
  }

  /** Deletes all records from memory and from the store. */
  async clear(): Promise<void> {
    this.#counts.clear();
    this.#ofMinion.clear();
    this.#gone.clear();
    this.#missed = 0;
    await this.#writing.run(async () => {
      await this.#options.store.write([{ op: 'delete-prefix', prefix }]);
    });
  }

  /** Writes changed records. Resolves when all records are in the store. */
  async flush(): Promise<void> {
    await this.#writing.run(() => this.#write());
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush().catch((error: unknown) => {
      this.#options.log.warn(
        { err: error },
        'cannot store the recorded decisions, which `saltbridge acl learn` and `saltbridge acl replay` read',
      );
    });
  }

  #begin(subject: DecisionSubject, now: number): Count | undefined {
    const isFull = (this.#ofMinion.get(subject.minion) ?? 0) >= maxOfMinion;
    if (isFull || !this.#rate.tryTake(subject.minion)) {
      this.#missed += 1;
      return undefined;
    }
    if (this.#counts.size >= maxDecisions) this.#forgetOldest();
    return this.#add({
      ...subject,
      samples: [],
      isWhole: true,
      bytes: 0,
      firstAt: now,
      lastAt: now,
      count: 0,
      shapes: new Set(),
      isDirty: true,
      placedAt: now,
    });
  }

  #add(count: Count): Count {
    this.#counts.set(keyOf(count), count);
    this.#ofMinion.set(count.minion, (this.#ofMinion.get(count.minion) ?? 0) + 1);
    return count;
  }

  /**
   * Removes one record: the first in the map that was not used since it was placed there. Moves the
   * used records before it to the end of the map. A use of a record therefore need not move it.
   */
  #forgetOldest(): void {
    for (const [key, count] of this.#counts) {
      this.#counts.delete(key);
      if (count.lastAt > count.placedAt) {
        count.placedAt = count.lastAt;
        this.#counts.set(key, count);
        continue;
      }
      this.#gone.add(nameOf(key));
      this.#ofMinion.set(count.minion, (this.#ofMinion.get(count.minion) ?? 1) - 1);
      this.#missed += 1;
      return;
    }
  }

  #look(known: Count, sample: Sample): void {
    const { shape } = sample;
    if (shape !== undefined && known.shapes.has(shape)) return;
    const hasRoom = shape !== undefined && known.shapes.size < maxShapes;
    const kept = hasRoom ? storedSample(sample, this.#options.storesValues()) : undefined;
    if (shape === undefined || kept === undefined) {
      known.isWhole = false;
      return;
    }
    known.shapes.add(shape);
    known.samples = [...known.samples, kept];
  }

  async #write(): Promise<void> {
    const { store, seal } = this.#options;
    const dirty = [...this.#counts].filter(([, count]) => count.isDirty);
    const operations: Operation[] = [...this.#gone].map((name) => ({
      op: 'delete',
      key: [...prefix, name],
    }));
    for (const [key, count] of dirty) {
      count.isDirty = false;
      const { isDirty: _isDirty, placedAt: _placedAt, shapes, ...record } = count;
      const value = seal.seal(decisionRow.encode({ ...record, shapes: [...shapes] }));
      operations.push({ op: 'put', key: [...prefix, nameOf(key)], value });
    }
    if (operations.length === 0) return;
    try {
      await store.write(operations);
      this.#gone.clear();
    } catch (error) {
      for (const [, count] of dirty) count.isDirty = true;
      throw error;
    }
  }
}

/** Returns the name of a record's row in the store. */
function nameOf(key: string): string {
  return hash('sha256', key);
}
