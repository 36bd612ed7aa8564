/**
 * Records the latest decisions about minions: counted in memory, written to the store from time to
 * time.
 */

import { createHash } from 'node:crypto';
import type { Logger } from 'pino';
import Type from 'typebox';
import { type Call, type Decision, type MinionSubject, type Question, questionText } from '#acl';
import { isPlainObject, isWireMap, type WireValue } from '#minion-protocol';
import { TokenBuckets } from '#runtime';
import { defineRow, fromJson, jsonField, type Operation, type Store, Texts } from '#store';
import type { RecordedDecision } from '../api/index.ts';
import type { Seal } from '../auth/index.ts';

/** What a minion asks for that rules are about. */
export type MinionQuestion = Exclude<Question, { action: 'return' }> & {
  readonly subject: MinionSubject;
};

// Shapes of data, without values.

/** Values of one piece of data that are looked at. */
const maxParts = 200;
const maxDepth = 16;

/**
 * The shape of data as text: the same for data that differ in their texts and numbers alone.
 * `undefined` for what JSON cannot say, and for what is too large to be looked at each time.
 */
export function shapeOf(value: WireValue | undefined): string | undefined {
  let parts = 0;
  const describe = (part: unknown, depth: number): string | undefined => {
    parts += 1;
    if (parts > maxParts || depth > maxDepth) return undefined;
    if (part === null) return 'null';
    if (typeof part === 'number') return describeNumber(part);
    if (typeof part !== 'object') {
      return typeof part === 'string' || typeof part === 'boolean' ? typeof part : undefined;
    }
    if (Array.isArray(part)) return describeList(part.map((item) => describe(item, depth + 1)));
    if (!isPlainObject(part)) return undefined;
    const fields: string[] = [];
    for (const name of Object.keys(part)) {
      const shape = name === '__proto__' ? undefined : describe(part[name], depth + 1);
      if (shape === undefined) return undefined;
      // With its length before it no name can be taken for a part of another shape.
      fields.push(`${name.length} ${name} ${shape}`);
    }
    return `{${fields.sort().join()}}`;
  };
  return describe(value, 0);
}

/** The same data with nothing in it but its shape. */
function withoutValues(value: unknown): unknown {
  if (typeof value === 'string') return '';
  if (typeof value === 'number') return Number.isInteger(value) ? 0 : 0.5;
  if (Array.isArray(value)) return value.map(withoutValues);
  if (typeof value !== 'object' || value === null) return value === null ? null : false;
  return Object.fromEntries(
    Object.entries(value).map(([name, field]) => [name, withoutValues(field)]),
  );
}

function describeNumber(value: number): string | undefined {
  if (!Number.isFinite(value)) return undefined;
  return Number.isInteger(value) ? 'integer' : 'number';
}

/** Which items there are has a meaning, how many and in which order has none. */
function describeList(items: readonly (string | undefined)[]): string | undefined {
  if (!items.every((item) => item !== undefined)) return undefined;
  return `[${[...new Set(items)].sort().join()}]`;
}

/** What a record is known by. */
export type DecisionSubject = Pick<
  RecordedDecision,
  'action' | 'effect' | 'minion' | 'minions' | 'owner' | 'rule' | 'texts'
>;

/** A part of a question that differs from time to time. */
export interface Sample {
  /** `undefined`: it has no form that can be kept. */
  readonly shape: string | undefined;
  readonly value: () => WireValue;
}

/** Bytes of JSON of one sample. */
const maxSampleBytes = 2048;

function subjectOf(question: MinionQuestion, { effect, rule }: Decision): DecisionSubject {
  const { action } = question;
  const texts =
    action === 'publish' ? question.resource.calls.map(({ fun }) => fun) : [questionText(question)];
  const minions = action === 'publish' ? question.resource.minions : undefined;
  const owner = action === 'mine' ? question.resource.owner : undefined;
  return {
    minion: question.subject.id,
    action,
    texts,
    ...(owner === undefined ? {} : { owner }),
    ...(minions === undefined ? {} : { minions }),
    effect,
    rule,
  };
}

/** No part can be taken for another one: ids and names of rules have no line feed in them. */
function keyOf(subject: DecisionSubject): string {
  const { minion, action, texts, owner = '', minions = [], effect, rule } = subject;
  const [text = ''] = texts;
  if (action === 'signal') return signalKey(effect, minion, rule, text);
  return JSON.stringify([action, effect, minion, rule, texts, owner, minions]);
}

/** The same before anything is put together for it: most of what minions ask for are signals. */
function keyOfQuestion(question: MinionQuestion, decision: Decision): string {
  if (question.action !== 'signal') return keyOf(subjectOf(question, decision));
  const { subject, resource } = question;
  return signalKey(decision.effect, subject.id, decision.rule, resource.tag);
}

function signalKey(effect: string, minion: string, rule: string, tag: string): string {
  return `${effect}\n${minion}\n${rule}\n${tag}`;
}

/** What of a question is kept by its shape; `undefined`: it has no such part. */
function sampleOf(question: MinionQuestion): Sample | undefined {
  switch (question.action) {
    case 'signal': {
      const data = question.resource.data as WireValue | undefined; // a minion's, from the wire
      // Where nothing is said, no schema fits: that it was so sometimes must be known.
      return { shape: shapeOf(data), value: () => data ?? null };
    }
    case 'publish': {
      const { calls } = question.resource;
      return { shape: calls.map(shapeOfCall).join(), value: () => calls.map(toPlainCall) };
    }
    case 'runner':
    case 'wheel':
    case 'command': {
      const { call } = question.resource;
      return { shape: shapeOfCall(call), value: () => [toPlainCall(call)] };
    }
    default:
      return undefined;
  }
}

/** A sample within bounds; `undefined` where it is too large to be kept. */
function keptSample(sample: Sample, keepsValues: boolean): WireValue | undefined {
  const value = sample.value();
  // What has a shape is JSON.
  const kept = keepsValues ? value : (withoutValues(value) as WireValue);
  return JSON.stringify(kept).length <= maxSampleBytes ? kept : undefined;
}

function shapeOfCall({ args, kwargs }: Call): string {
  return `${args.length}(${[...kwargs.keys()].sort().join()})`;
}

function toPlainCall({ fun, args, kwargs }: Call): WireValue {
  return { fun, args: [...args], kwargs: Object.fromEntries(kwargs) };
}

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
  #writing: Promise<void> = Promise.resolve();

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
    await this.#inTurn(async () => {
      await this.#options.store.write([{ op: 'delete-prefix', prefix }]);
    });
  }

  /** Resolves when all is in the store. */
  async flush(): Promise<void> {
    await this.#inTurn(() => this.#write());
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

  #inTurn(work: () => Promise<void>): Promise<void> {
    const done = this.#writing.then(work);
    this.#writing = done.catch(() => {
      // Whoever asked for it is told.
    });
    return done;
  }
}

/** What a record is called in the store. */
function nameOf(key: string): string {
  return createHash('sha256').update(key).digest('hex');
}

// Recorded decisions as questions to a policy.

/** One question for each sample; one where there is none. */
export function questionsOf(record: RecordedDecision): MinionQuestion[] {
  const samples: readonly (WireValue | undefined)[] =
    record.samples.length > 0 ? record.samples : [undefined];
  return samples.flatMap((sample) => questionOf(record, sample) ?? []);
}

function questionOf(
  record: RecordedDecision,
  sample: WireValue | undefined,
): MinionQuestion | undefined {
  const { action, texts, owner, minions = [] } = record;
  const [text = ''] = texts;
  const subject: MinionSubject = { kind: 'minion', id: record.minion };
  switch (action) {
    case 'signal': {
      const wasPublishedToSubject = (): boolean => false;
      const resource = {
        tag: text,
        data: sample,
        bytes: () => record.bytes,
        wasPublishedToSubject,
      };
      return { subject, action, resource };
    }
    case 'publish': {
      return { subject, action, resource: { calls: callsOf(record, sample), minions } };
    }
    case 'runner':
    case 'wheel': {
      const [call] = callsOf(record, sample);
      return call && { subject, action, resource: { call } };
    }
    case 'command': {
      const [call] = callsOf(record, sample);
      return call && { subject, action, resource: { call, minions } };
    }
    case 'mine': {
      const resource = owner === undefined ? { fun: text } : { fun: text, owner };
      return { subject, action, resource };
    }
    case 'file-send':
      return { subject, action, resource: { path: text } };
    case 'pillar':
      return { subject, action, resource: { environment: text } };
    case 'key':
      return { subject, action, resource: { operation: text } };
    case 'subscribe':
      return { subject, action, resource: { tag: text } };
  }
}

function callsOf({ texts }: RecordedDecision, sample: WireValue | undefined): Call[] {
  const kept = Array.isArray(sample) ? sample : [];
  return texts.map((fun, index) => {
    const call = kept[index];
    const args = isWireMap(call) && Array.isArray(call.args) ? call.args.map(String) : [];
    const kwargs = isWireMap(call) && isWireMap(call.kwargs) ? Object.entries(call.kwargs) : [];
    return { fun, args, kwargs: new Map(kwargs.map(([name, value]) => [name, String(value)])) };
  });
}
