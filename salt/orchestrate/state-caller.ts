/** Calls one state [salt/state.py call]. */

import type { Logger } from 'pino';
import { codeOf, errorMessage } from '#runtime';
import { textOf } from '../render/pillar-wire.ts';
import { type ConditionFunctions, outcomeOfConditions } from './conditions.ts';
import type { Journal, JournalStep, Settled } from './journal.ts';
import { type Chunk, placeOf, tagOf } from './low-chunk.ts';
import { attempt } from './retry.ts';
import { givenTo, isTrue, SlsError, type StateTable } from './state-function.ts';
import { failed, type Outcome, resultOf, type StateResult, timing } from './state-result.ts';
import { verifyChunk } from './verify-chunk.ts';

export interface StateCallerOptions {
  readonly table: StateTable;
  /** Functions that the conditions of states, such as `onlyif`, may call. */
  readonly conditions: ConditionFunctions;
  /** Whether to run in test mode, without changes. */
  readonly test: boolean;
  readonly signal: AbortSignal;
  /** Returns milliseconds since 1970. */
  readonly now: () => number;
  /** Journal of the run. If it is `undefined`, results are not stored. */
  readonly journal: Journal | undefined;
  readonly log: Logger;
}

/** Options of one call. */
interface CallMode {
  /**
   * Whether the call only predicts changes and makes none. Used for the requisite `prereq`. The
   * results do not list such a call.
   */
  readonly isTrial?: boolean;
  /** Watched states that have made changes, as `state: id`. Given only for calls of `mod_watch`. */
  readonly changed?: readonly string[];
}

/** Calls states, and numbers their results. */
export class StateCaller {
  readonly #options: StateCallerOptions;
  #runNumber = 0;

  constructor(options: StateCallerOptions) {
    this.#options = options;
  }

  get table(): StateTable {
    return this.#options.table;
  }

  /** Gives a result the next run number (`__run_num__`), counts up, and returns the result. */
  number(result: StateResult): StateResult {
    this.numberAsNext(result);
    this.#runNumber += 1;
    return result;
  }

  /**
   * Gives a result the next run number (`__run_num__`), but does not count up. The following result
   * therefore gets the same number. Salt does this for some cycles of requisites.
   */
  numberAsNext(result: StateResult): void {
    result.facts = { ...result.facts, __run_num__: this.#runNumber };
  }

  /**
   * Applies a chunk: calls the function of this single state. A failure is a result too, and does
   * not throw.
   */
  async call(chunk: Chunk, mode: CallMode = {}): Promise<StateResult> {
    const problems = verifyChunk(chunk, this.#options.table);
    if (problems.length > 0) {
      const outcome = failed(problems.map((problem) => `${problem}\n`).join(''));
      // As in Salt, this result does not contain the SLS and id of the chunk.
      return this.number(resultOf(chunk, outcome, {}));
    }
    if (mode.isTrial) {
      return resultOf(chunk, await this.#try(chunk, mode, undefined), placeOf(chunk));
    }
    return isTrue(chunk.args.get('parallel'))
      ? this.#beside(chunk, mode)
      : this.#inTurn(chunk, mode);
  }

  async #inTurn(chunk: Chunk, mode: CallMode): Promise<StateResult> {
    const { outcome, attempts, startedAt, endedAt } = await this.#settle(chunk, mode);
    const result = resultOf(chunk, outcome, {
      ...timing(startedAt, endedAt),
      ...placeOf(chunk),
    });
    this.#runNumber += attempts - 1;
    return this.number(result);
  }

  /**
   * Starts a state with `parallel: True`, and does not wait for its end. Before a state that
   * depends on it, and at the end of the run, the run waits for it.
   */
  #beside(chunk: Chunk, mode: CallMode): StateResult {
    const started = { result: null, changes: {}, comment: 'Started in a separate process' };
    const result = this.number(resultOf(chunk, started, placeOf(chunk)));
    result.pending = this.#settle(chunk, mode).then(({ outcome, startedAt, endedAt }) => {
      result.outcome = outcome;
      result.facts = { ...result.facts, ...timing(startedAt, endedAt), __parallel__: true };
      result.pending = undefined;
    });
    return result;
  }

  /**
   * Runs a chunk. If a member that has stopped had already finished the chunk, returns the stored
   * result.
   */
  async #settle(chunk: Chunk, mode: CallMode): Promise<Settled> {
    const { now, journal } = this.#options;
    const step = journal?.next(tagOf(chunk));
    if (step?.settled !== undefined) return step.settled;
    const startedAt = now();
    const run = (): Promise<Outcome> => this.#try(chunk, mode, step);
    const attempted = await attempt(run, chunk.args.get('retry'), this.#options);
    const settled = { ...attempted, startedAt, endedAt: now() };
    await step?.settle(settled);
    return settled;
  }

  async #try(chunk: Chunk, mode: CallMode, step: JournalStep | undefined): Promise<Outcome> {
    const { signal, log } = this.#options;
    try {
      return await this.#run(chunk, mode, step);
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof SlsError) && codeOf(error) === undefined) {
        log.error({ fun: `${chunk.state}.${chunk.fun}`, err: error }, 'state failed');
      }
      const reason = errorMessage(error);
      return failed(`An exception occurred in this state: ${reason}`);
    }
  }

  async #run(
    { state, fun, name, args, saltenv }: Chunk,
    { isTrial = false, changed = [] }: CallMode,
    step: JournalStep | undefined,
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
      step,
    });
  }
}
