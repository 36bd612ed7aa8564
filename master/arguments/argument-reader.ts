import { isWireMap, type WireValue } from '../../minion-protocol/index.ts';
import {
  readingSteps,
  readJsonInSteps,
  StepScheduler,
  WorkerPool,
  WorkerPoolError,
} from '../../runtime/index.ts';
import { markedJson } from '../rpc/json-values.ts';
import type { FunctionArguments } from './arguments.ts';
import { readText, sizeOf, type TextAnswer, type TextTask } from './text-work.ts';

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
    const script = new URL('./text-worker.js', import.meta.url);
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
    if (characters <= maxInline) {
      readingSteps.publish({ characters, values: 0 });
      return readText(task);
    }
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
