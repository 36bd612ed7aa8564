/** Messages between the main thread and a rendering thread. They are sent as structured clones. */

import {
  type PayloadLimits,
  packLocal,
  unpackLocal,
  unpackLocalInSlices,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import type { WorkBudget } from '#runtime';
import { Float, type PlainData, TemplateError, type TemplateErrorCode } from '#template';
import type { CallTask } from './call-function.ts';
import type { GrainReads } from './grains.ts';
import { isList, isPillarMap, type PillarMap } from './pillar-data.ts';
import type {
  Answer,
  Notes,
  PillarTask,
  Question,
  ReactionTask,
  ReadTask,
  Rendered,
  RenderTask,
} from './render-task.ts';
import {
  oneSlice,
  runAtOnce,
  runInSlices,
  type Slices,
  type Steps,
  stepsPerValue,
} from './slices.ts';
import type { SourceText } from './source-file.ts';

/**
 * A task in a form that can be cloned. The grains, the data of the event and the data of the caller
 * are packed, because cloning would lose the classes of floats and dates in them.
 */
export type SentTask =
  | (Omit<PillarTask, 'foreign' | 'grains'> & {
      readonly grains: Uint8Array;
      readonly foreign: { readonly words: Uint8Array; readonly secret: string } | undefined;
    })
  | (Omit<ReactionTask, 'data' | 'grains'> & {
      readonly grains: Uint8Array;
      readonly data: Uint8Array;
    });

/** A call of a function in a form that can be cloned. The values are packed. */
export interface SentCall extends Omit<CallTask, 'args' | 'kwargs' | 'pillar'> {
  readonly args: Uint8Array;
  readonly kwargs: Uint8Array;
  readonly pillar: Uint8Array;
}

/** Order to a rendering thread: a template to render, a text to parse, or a function to call. */
export type RenderOrder =
  | {
      readonly kind: 'render';
      readonly file: SourceText;
      readonly task: SentTask;
      readonly known: ReadonlyMap<string, SourceText | undefined>;
    }
  | { readonly kind: 'read'; readonly task: ReadTask }
  | { readonly kind: 'call'; readonly task: SentCall };

/** Answer of a rendering thread: the outcome of the rendering, and its dependencies. */
export interface RenderAnswer {
  readonly outcome: RenderOutcome;
  readonly notes?: SentNotes;
}

/** Result of an order. */
export type RenderOutcome =
  | { readonly kind: 'rendered'; readonly rendered: Rendered }
  | { readonly kind: 'data'; readonly data: PlainData }
  /** Result of a function, packed. */
  | { readonly kind: 'called'; readonly value: Uint8Array }
  | { readonly kind: 'not-called'; readonly reason: string }
  | { readonly kind: 'not-read'; readonly path: string }
  | { readonly kind: 'not-answered'; readonly question: Question }
  | { readonly kind: 'template-error'; readonly error: SentTemplateError }
  | { readonly kind: 'failed'; readonly error: unknown };

/** Dependencies of a rendering ({@link Notes}) in a form that can be cloned. */
export interface SentNotes {
  readonly values: ReadonlyMap<string, Uint8Array | null>;
  readonly whole: Uint8Array | undefined;
  readonly late: ReadonlySet<string>;
  readonly isVolatile: boolean;
}

export interface SentTemplateError {
  readonly code: TemplateErrorCode;
  readonly file: string;
  readonly line: number;
  readonly kind: string;
  readonly detail: string;
}

export function sendTask(task: RenderTask): SentTask {
  const grains = packLocal(task.grains);
  if (task.kind === 'reaction') return { ...task, grains, data: packLocal(task.data) };
  const { foreign } = task;
  return {
    ...task,
    grains,
    foreign: foreign && { words: packLocal(foreign.words), secret: foreign.secret },
  };
}

export function receiveTask(task: SentTask): RenderTask {
  const grains = unpackMap(task.grains);
  if (task.kind === 'reaction') return { ...task, grains, data: unpackMap(task.data) };
  const { foreign } = task;
  const answers = Array.from(
    task.answers,
    ([mark, answer]) => [mark, receiveAnswer(answer)] as const,
  );
  return {
    ...task,
    grains,
    answers: new Map(answers),
    defaults: receiveMap(task.defaults),
    pillar: receiveMap(task.pillar),
    foreign: foreign && { words: unpackMap(foreign.words), secret: foreign.secret },
  };
}

/** Limits for unpacking data that this process itself has packed. Only the depth is limited. */
const unlimited: PayloadLimits = {
  maxBytes: Number.POSITIVE_INFINITY,
  maxDepth: 256,
  maxElements: Number.POSITIVE_INFINITY,
};

function unpackMap(packed: Uint8Array): WireMap {
  return unpackLocal(packed, unlimited) as WireMap; // packed from a WireMap by sendTask
}

export function sendNotes({ grains, isVolatile }: Notes): SentNotes {
  const { values, whole, late } = grains;
  return { values, whole, late, isVolatile };
}

/** Records in `notes` the dependencies that a rendering thread has found. */
export function receiveNotes(notes: Notes, { values, whole, late, isVolatile }: SentNotes): void {
  addReads(notes.grains, values, whole);
  for (const name of late) notes.grains.addMark(name);
  if (isVolatile) notes.isVolatile = true;
}

function addReads(
  grains: GrainReads,
  values: ReadonlyMap<string, Uint8Array | null>,
  whole: Uint8Array | undefined,
): void {
  for (const [name, value] of values) {
    grains.values.set(name, value === null ? null : Buffer.from(value));
  }
  if (whole !== undefined) grains.whole = Buffer.from(whole);
}

export function sendTemplateError({ code, place, kind, detail }: TemplateError): SentTemplateError {
  return { code, file: place.file, line: place.line, kind, detail };
}

export function receiveTemplateError({
  code,
  file,
  line,
  kind,
  detail,
}: SentTemplateError): TemplateError {
  return new TemplateError(code, { place: { file, line }, kind, detail });
}

export function receiveQuestion({ args, kwargs, ...question }: Question): Question {
  const named = Object.entries(kwargs).map(([name, value]) => [name, receiveData(value)]);
  return {
    ...question,
    args: args.map((arg) => receiveData(arg)),
    kwargs: Object.fromEntries(named),
  };
}

export function sendCall({ args, kwargs, pillar, ...task }: CallTask): SentCall {
  return {
    ...task,
    args: packLocal([...args]),
    kwargs: packLocal(kwargs),
    pillar: packLocal(pillar),
  };
}

export function receiveCall({ args, kwargs, pillar, ...task }: SentCall): CallTask {
  const list = unpackLocal(args, unlimited);
  return {
    ...task,
    args: Array.isArray(list) ? list : [],
    kwargs: unpackMap(kwargs),
    pillar: unpackMap(pillar),
  };
}

/** Unpacks the result of a function that a rendering thread has called, in slices. */
export function receiveResult(value: Uint8Array, budget: WorkBudget): Promise<WireValue> {
  return unpackLocalInSlices(value, unlimited, budget);
}

function receiveAnswer(answer: Answer): Answer {
  return 'error' in answer ? answer : { value: receiveData(answer.value) };
}

/** Restores data after cloning, in slices. */
export function receiveDataInSlices(data: PlainData, budget: WorkBudget): Promise<PlainData> {
  return runInSlices(receiveInSteps(data, budget, new Map()), budget);
}

function receiveData(data: PlainData): PlainData {
  return runAtOnce(receiveInSteps(data, oneSlice, new Map()));
}

function receiveMap(map: PillarMap): PillarMap {
  return runAtOnce(receiveMapInSteps(map, oneSlice, new Map()));
}

/** Restored lists and maps by their clones. */
type Restored = Map<PlainData, PlainData>;

/**
 * Restores data after cloning. A float arrives as a plain object that contains its value.
 * @param made - several references to one list or map remain references to one list or map
 */
function* receiveInSteps(data: PlainData, slices: Slices, made: Restored): Steps<PlainData> {
  slices.addToSlice(stepsPerValue);
  if (slices.isSliceOver) yield;
  if (typeof data !== 'object' || data === null || data instanceof Uint8Array) return data;
  const known = made.get(data);
  if (known !== undefined) return known;
  const restored = isPillarMap(data)
    ? yield* receiveMapInSteps(data, slices, made)
    : isList(data)
      ? yield* receiveListInSteps(data, slices, made)
      : new Float(data.value);
  made.set(data, restored);
  return restored;
}

function* receiveListInSteps(
  list: readonly PlainData[],
  slices: Slices,
  made: Restored,
): Steps<PlainData[]> {
  const restored: PlainData[] = [];
  for (const item of list) restored.push(yield* receiveInSteps(item, slices, made));
  return restored;
}

function* receiveMapInSteps(map: PillarMap, slices: Slices, made: Restored): Steps<PillarMap> {
  const restored = new Map<PlainData, PlainData>();
  for (const [key, value] of map) {
    restored.set(
      yield* receiveInSteps(key, slices, made),
      yield* receiveInSteps(value, slices, made),
    );
  }
  return restored;
}
