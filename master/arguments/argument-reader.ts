import { isWireMap, type WireValue } from '#minion-protocol';
import {
  readingSteps,
  readJsonInSteps,
  StepScheduler,
  WorkerPool,
  WorkerPoolError,
} from '#runtime';
import { jsonNumber } from '#template/python/json.ts';
import {
  type FunctionArguments,
  markedJson,
  maxPlainDepth,
  parseArgument,
  parseArguments,
  toPlainValue,
} from './arguments.ts';
import { argumentLimits } from './limits.ts';
import { parseYaml } from './yaml.ts';

/**
 * Text to parse: one YAML document (`yaml`), several plain values (`values`) or the words of a
 * command line (`words`).
 */
export type TextTask =
  | { readonly kind: 'yaml'; readonly text: string; readonly maxValues: number }
  | { readonly kind: 'values'; readonly inputs: readonly string[] }
  | {
      readonly kind: 'words';
      readonly inputs: readonly string[];
      readonly noParse: readonly string[];
    };

/**
 * Result of a worker thread that parsed a text: the value as marked JSON (see `toJson`), or the
 * reason why the text is invalid.
 */
export type TextAnswer =
  | { readonly ok: true; readonly json: string }
  | { readonly ok: false; readonly problem: string };

/**
 * Parses a text.
 * @throws Error if the text is invalid. Words of a command line are always valid
 */
export function readText(task: TextTask): WireValue {
  if (task.kind === 'yaml') {
    const limits = {
      maxValues: task.maxValues,
      maxDepth: maxPlainDepth,
      isPlain: true,
      keepsFloats: true,
    };
    return toPlainValue(parseYaml(task.text, limits));
  }
  if (task.kind === 'values') return task.inputs.map((input) => toPlainValue(parseArgument(input)));
  const { arg, kwarg } = parseArguments(task.inputs, task.noParse);
  return { arg: [...arg], kwarg };
}

/** Returns the number of characters that a task has to parse. */
function sizeOf(task: TextTask): number {
  if (task.kind === 'yaml') return task.text.length;
  return task.inputs.reduce((sum, input) => sum + input.length, 0);
}

/**
 * Maximum number of characters that are parsed on the main thread. A character takes up to 30 µs.
 */
const maxInline = 1024;

/** Time limit for parsing one text in a worker thread, in milliseconds. */
const deadlineMs = 10_000;

/**
 * Parses arguments and YAML from clients. Short texts are parsed immediately, longer texts in a
 * worker thread with a deadline. Methods reject with a SyntaxError for invalid text, and with a
 * WorkerPoolError if no thread could parse the text.
 */
export class ArgumentReader {
  readonly #maxValues: number;
  readonly #scheduler: StepScheduler;
  readonly #pool: WorkerPool<TextTask, TextAnswer>;

  /**
   * Creates a reader with its own worker threads.
   * @param maxValues - maximum number of values in one YAML document
   */
  constructor(maxValues: number, scheduler: StepScheduler = new StepScheduler()) {
    this.#maxValues = maxValues;
    this.#scheduler = scheduler;
    const script = new URL('./text-worker.ts', import.meta.url);
    this.#pool = new WorkerPool(argumentLimits.textThreads, { script, deadlineMs });
  }

  /**
   * Reads arguments as typed on a command line.
   * @param owner - name of the caller. The worker threads have limits for each caller
   * @param noParse - names of keyword arguments. Their values stay text
   */
  async readWords(
    owner: string,
    inputs: readonly string[],
    noParse: readonly string[] = [],
  ): Promise<FunctionArguments> {
    const value = await this.#read(owner, { kind: 'words', inputs, noParse });
    const { arg, kwarg } = isWireMap(value) ? value : {};
    return { arg: Array.isArray(arg) ? arg : [], kwarg: isWireMap(kwarg) ? kwarg : {} };
  }

  /** Reads one plain value from each text. No text is treated as a keyword argument. */
  async readValues(owner: string, inputs: readonly string[]): Promise<readonly WireValue[]> {
    const values = await this.#read(owner, { kind: 'values', inputs });
    return Array.isArray(values) ? values : [];
  }

  /** Reads one YAML document that is limited to JSON's features. */
  readYaml(owner: string, text: string): Promise<WireValue> {
    return this.#read(owner, { kind: 'yaml', text, maxValues: this.#maxValues });
  }

  /** Ends the worker threads. */
  close(): Promise<void> {
    return this.#pool.close();
  }

  async #read(owner: string, task: TextTask): Promise<WireValue> {
    const characters = sizeOf(task);
    if (characters > maxInline) return this.#readInThread(owner, task);
    readingSteps.publish({ characters, values: 0 });
    return readText(task);
  }

  async #readInThread(owner: string, task: TextTask): Promise<WireValue> {
    const answer = await this.#pool.run(task, owner);
    if (!answer.ok) throw new SyntaxError(answer.problem);
    const limits = { maxValues: this.#maxValues, isStrict: false };
    return this.#scheduler.run(
      readJsonInSteps(answer.json, { ...markedJson, ...limits, readNumber: jsonNumber }),
    );
  }
}

/**
 * Whether an error of an {@link ArgumentReader} means that the text was not parsed because the
 * reader was overloaded or closing. The caller may then retry.
 */
export function isReaderBusy(error: unknown): boolean {
  return error instanceof WorkerPoolError && (error.reason === 'busy' || error.reason === 'closed');
}
