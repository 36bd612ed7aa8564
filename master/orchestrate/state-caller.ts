/** Calls the function of one chunk, and tells what came of it [salt/state.py call]. */
import type { Logger } from 'pino';
import { codeOf } from '../system-error.ts';
import { type ConditionFunctions, outcomeOfConditions } from './conditions.ts';
import { textOf } from './data.ts';
import { type Chunk, placeOf } from './low-chunk.ts';
import { type Outcome, resultOf, type StateResult, timing } from './result.ts';
import { attempt } from './retry.ts';
import { givenTo, isTrue, SlsError, type StateTable } from './states/state-function.ts';
import { verifyChunk } from './verify-chunk.ts';

/** What {@link StateCaller} needs. */
export interface StateCallerOptions {
  readonly table: StateTable;
  /** What conditions may call. */
  readonly conditions: ConditionFunctions;
  /** Nothing is to be changed. */
  readonly test: boolean;
  readonly signal: AbortSignal;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly log: Logger;
}

/** How a chunk is called. */
interface CallMode {
  /** Only to see whether it would change something: it is not counted as run. */
  readonly isTrial?: boolean;
  /** See `StateCall.changed`. */
  readonly changed?: readonly string[];
}

/** Counts what it calls, as the results tell. */
export class StateCaller {
  readonly #options: StateCallerOptions;
  #runNumber = 0;

  constructor(options: StateCallerOptions) {
    this.#options = options;
  }

  get table(): StateTable {
    return this.#options.table;
  }

  /** Gives a result the next number. */
  number(result: StateResult): StateResult {
    result.facts = { ...result.facts, __run_num__: this.#runNumber };
    this.#runNumber += 1;
    return result;
  }

  /** A state that has failed is a result too. */
  async call(chunk: Chunk, mode: CallMode = {}): Promise<StateResult> {
    const problems = verifyChunk(chunk, this.#options.table);
    if (problems.length > 0) {
      const outcome = failed(problems.map((problem) => `${problem}\n`).join(''));
      // As in Salt, without its place.
      return this.number(resultOf(chunk, outcome, {}));
    }
    if (mode.isTrial) return resultOf(chunk, await this.#try(chunk, mode), placeOf(chunk));
    return isTrue(chunk.args.get('parallel'))
      ? this.#beside(chunk, mode)
      : this.#inTurn(chunk, mode);
  }

  async #inTurn(chunk: Chunk, mode: CallMode): Promise<StateResult> {
    const { now } = this.#options;
    const startedAt = now();
    const { outcome, attempts } = await this.#attempt(chunk, mode);
    const result = resultOf(chunk, outcome, {
      ...timing(startedAt, now()),
      ...placeOf(chunk),
    });
    this.#runNumber += attempts - 1;
    return this.number(result);
  }

  /** It is waited for when something depends on it, or at the end. */
  #beside(chunk: Chunk, mode: CallMode): StateResult {
    const { now } = this.#options;
    const startedAt = now();
    const started = { result: null, changes: {}, comment: 'Started in a separate process' };
    const result = this.number(resultOf(chunk, started, placeOf(chunk)));
    result.pending = this.#attempt(chunk, mode).then(({ outcome }) => {
      result.outcome = outcome;
      result.facts = { ...result.facts, ...timing(startedAt, now()), __parallel__: true };
      result.pending = undefined;
    });
    return result;
  }

  #attempt(chunk: Chunk, mode: CallMode): ReturnType<typeof attempt> {
    return attempt(() => this.#try(chunk, mode), chunk.args.get('retry'), this.#options);
  }

  async #try(chunk: Chunk, mode: CallMode): Promise<Outcome> {
    const { signal, log } = this.#options;
    try {
      return await this.#run(chunk, mode);
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof SlsError) && codeOf(error) === undefined) {
        log.error({ fun: `${chunk.state}.${chunk.fun}`, err: error }, 'state failed');
      }
      const reason = error instanceof Error ? error.message : String(error);
      return failed(`An exception occurred in this state: ${reason}`);
    }
  }

  async #run(
    { state, fun, name, args, saltenv }: Chunk,
    { isTrial = false, changed = [] }: CallMode,
  ): Promise<Outcome> {
    const { table, conditions, test } = this.#options;
    const full = `${state}.${fun}`;
    const found = table.get(full);
    if (found === undefined) throw new SlsError(`'${full}' is not available.`);
    const given = givenTo(found, args, full);
    const kept = outcomeOfConditions(args, conditions);
    if (kept !== undefined) return kept;
    const environment = args.get('saltenv');
    return found.call({
      name: textOf(name),
      given,
      saltenv: typeof environment === 'string' ? environment : saltenv,
      test: test || isTrial,
      changed,
    });
  }
}

function failed(comment: string): Outcome {
  return { result: false, changes: {}, comment };
}
