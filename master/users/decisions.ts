/**
 * Records the latest decisions about minions: counted in memory, written to the store from time to
 * time.
 */

import { createHash } from 'node:crypto';
import type { Logger } from 'pino';
import Type from 'typebox';
import type { Decision } from '#acl';
import { Semaphore, TokenBuckets } from '#runtime';
import { defineRow, fromJson, jsonField, type Operation, type Store, Texts } from '#store';
import type { RecordedDecision } from '../api/index.ts';
import type { Seal } from '../auth/index.ts';
import {
  type DecisionSubject,
  keptSample,
  keyOf,
  keyOfQuestion,
  type MinionQuestion,
  type Sample,
  sampleOf,
  subjectOf,
} from './decision-samples.ts';

export interface DecisionRecorderOptions {
  readonly store: Store;
  /** Samples are what minions said. */
  readonly seal: Seal;
  /** Whether samples have their values, or their shapes alone. */
  readonly keepsValues: () => boolean;
  readonly now: () => number;
  readonly log: Logger;
}

/** A record that is being counted. */
interface Count extends Omit<RecordedDecision, 'samples'> {
  samples: RecordedDecision['samples'];
  isWhole: boolean;
  bytes: number;
  firstAt: number;
  lastAt: number;
  count: number;
  readonly shapes: Set<string>;
  isDirty: boolean;
  /** `lastAt` when it got its place in the order in which records are forgotten. */
  placedAt: number;
}

const Text = Type.String();

/** Rows `decisions/<name>`, sealed. */
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

/** Decisions that are told apart; one that was not met for a long time goes first. */
const maxDecisions = 5_000;
/** Of one minion, so that none drives out the others'. */
const maxOfMinion = 200;
/** How often a minion may do something new: what is new costs more than what is known. */
const newOnes = { perSecond: 1, burst: maxOfMinion };
const maxShapes = 8;
const flushEveryMs = 30_000;
const prefix = ['decisions'];

export class DecisionRecorder {
  readonly #options: DecisionRecorderOptions;
  readonly #counts = new Map<string, Count>();
  readonly #ofMinion = new Map<string, number>();
  readonly #rate: TokenBuckets;
  /** Keys of the store. */
  readonly #gone = new Set<string>();
  #missed = 0;
  #timer: NodeJS.Timeout | undefined;
  readonly #writing = new Semaphore(1);

  private constructor(options: DecisionRecorderOptions) {
    this.#options = options;
    this.#rate = new TokenBuckets(newOnes, options.now);
  }

  /** Goes on with what was recorded before. */
  static async open(options: DecisionRecorderOptions): Promise<DecisionRecorder> {
    const recorder = new DecisionRecorder(options);
    for await (const { key, value } of options.store.list(prefix)) {
      const row = decisionRow.decode({ key, value: options.seal.open(value) });
      recorder.#add({ ...row, shapes: new Set(row.shapes), isDirty: false, placedAt: row.lastAt });
    }
    recorder.#timer = setInterval(() => {
      recorder.flush().catch((error: unknown) => {
        options.log.warn({ err: error }, 'decisions were not kept');
      });
    }, flushEveryMs).unref();
    return recorder;
  }

  /** Decisions that were not told apart, because there were too many. */
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

  /** The latest ones; what has no sample was not kept by its shape. */
  list(since = 0): RecordedDecision[] {
    return [...this.#counts.values()]
      .filter(({ lastAt }) => lastAt >= since)
      .map(({ shapes: _shapes, isDirty: _isDirty, placedAt: _placedAt, ...record }) => record);
  }

  /** Forgets all of them. */
  async clear(): Promise<void> {
    this.#counts.clear();
    this.#ofMinion.clear();
    this.#gone.clear();
    this.#missed = 0;
    await this.#writing.run(async () => {
      await this.#options.store.write([{ op: 'delete-prefix', prefix }]);
    });
  }

  /** Resolves when all is in the store. */
  async flush(): Promise<void> {
    await this.#writing.run(() => this.#write());
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush().catch((error: unknown) => {
      this.#options.log.warn({ err: error }, 'decisions were not kept');
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

  /** Who was met since it got its place gets another one: no search, and no move for each decision. */
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
    const kept = hasRoom ? keptSample(sample, this.#options.keepsValues()) : undefined;
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

/** What a record is called in the store. */
function nameOf(key: string): string {
  return createHash('sha256').update(key).digest('hex');
}
