import { isWireMap, type WireValue } from '#minion-protocol';
import {
  readingSteps,
  readJsonInSteps,
  StepScheduler,
  WorkerPool,
  WorkerPoolError,
} from '#runtime';
import {
  type FunctionArguments,
  markedJson,
  maxPlainDepth,
  parseArgument,
  parseArguments,
  toPlainValue,
} from './arguments.ts';
import { parseYaml } from './yaml.ts';

/** A text to be read. */
export type TextTask =
  | { readonly kind: 'yaml'; readonly text: string; readonly maxValues: number }
  | { readonly kind: 'values'; readonly inputs: readonly string[] }
  | {
      readonly kind: 'words';
      readonly inputs: readonly string[];
      readonly noParse: readonly string[];
    };

/** What a thread says of one: JSON with marks, or why it is not read. */
export type TextAnswer =
  | { readonly ok: true; readonly json: string }
  | { readonly ok: false; readonly problem: string };

/** @throws Error for what cannot be read; words always can */
export function readText(task: TextTask): WireValue {
  if (task.kind === 'yaml') {
    const limits = { maxValues: task.maxValues, maxDepth: maxPlainDepth, isPlain: true };
    return toPlainValue(parseYaml(task.text, limits));
  }
  if (task.kind === 'values') return task.inputs.map((input) => toPlainValue(parseArgument(input)));
  const { arg, kwarg } = parseArguments(task.inputs, task.noParse);
  return { arg: [...arg], kwarg };
}

/** Characters that a task has to look at. */
function sizeOf(task: TextTask): number {
  if (task.kind === 'yaml') return task.text.length;
  return task.inputs.reduce((sum, input) => sum + input.length, 0);
}

/** Characters that are read at once; each may cost thirty microseconds. */
const maxInline = 1024;

/** Milliseconds for one text in a thread. */
const deadlineMs = 10_000;

/** Texts that wait for a thread. */
const maxWaiting = 256;

/**
 * Reads what callers write as YAML: short texts at once, longer ones in a thread with a deadline. Its
 * errors are SyntaxError for what cannot be read, and WorkerPoolError where a thread did not read it.
 */
export class ArgumentReader {
  readonly #maxValues: number;
  readonly #scheduler: StepScheduler;
  readonly #pool: WorkerPool<TextTask, TextAnswer>;

  /** @param maxValues - of one text */
  constructor(maxValues: number, scheduler: StepScheduler = new StepScheduler()) {
    this.#maxValues = maxValues;
    this.#scheduler = scheduler;
    const script = new URL('./text-worker.ts', import.meta.url);
    this.#pool = new WorkerPool({ script, deadlineMs, maxWaiting });
  }

  /** Arguments as they are typed. @param noParse - names of keywords whose value stays text */
  async readWords(
    inputs: readonly string[],
    noParse: readonly string[] = [],
  ): Promise<FunctionArguments> {
    const value = await this.#read({ kind: 'words', inputs, noParse });
    const { arg, kwarg } = isWireMap(value) ? value : {};
    return { arg: Array.isArray(arg) ? arg : [], kwarg: isWireMap(kwarg) ? kwarg : {} };
  }

  /** One plain value for each text, none of which is taken for a keyword. */
  async readValues(inputs: readonly string[]): Promise<readonly WireValue[]> {
    const values = await this.#read({ kind: 'values', inputs });
    return Array.isArray(values) ? values : [];
  }

  /** One document of YAML that says no more than JSON can. */
  readYaml(text: string): Promise<WireValue> {
    return this.#read({ kind: 'yaml', text, maxValues: this.#maxValues });
  }

  /** Ends the threads. */
  close(): Promise<void> {
    return this.#pool.close();
  }

  async #read(task: TextTask): Promise<WireValue> {
    const characters = sizeOf(task);
    if (characters > maxInline) return this.#readInThread(task);
    readingSteps.publish({ characters, values: 0 });
    return readText(task);
  }

  async #readInThread(task: TextTask): Promise<WireValue> {
    const answer = await this.#pool.run(task);
    if (!answer.ok) throw new SyntaxError(answer.problem);
    const limits = { maxValues: this.#maxValues, isStrict: false };
    return this.#scheduler.run(readJsonInSteps(answer.json, { ...markedJson, ...limits }));
  }
}

/** Whether a text was not read because of others: the caller may try again. */
export function isReaderBusy(error: unknown): boolean {
  return error instanceof WorkerPoolError && (error.reason === 'busy' || error.reason === 'closed');
}
