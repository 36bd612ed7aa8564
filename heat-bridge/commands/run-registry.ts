/** Registry of the active runs, and of the latest ended runs of each caller. */

import type { BudgetLimits } from '#runtime';
import { BridgeError } from '../errors.ts';
import type { ResolvedCaller } from './callers.ts';

/** Fields of a run of a command or plan that the registry reads. */
interface RegisteredRun {
  readonly id: string;
  /** Name of the caller. */
  readonly owner: string;
  readonly outcome: Promise<unknown>;
}

/** Runs by id: the active ones, and the latest ended ones of each caller. */
export class RunRegistry<R extends RegisteredRun> {
  readonly #limits: BudgetLimits;
  readonly #runs = new Map<string, R>();
  /** Ended runs by owner, the oldest first. */
  readonly #ended = new Map<string, R[]>();
  #endedTotal = 0;

  /**
   * Creates the registry.
   * @param limits - limits on ended runs
   */
  constructor(limits: BudgetLimits) {
    this.#limits = limits;
  }

  add(run: R): R {
    this.#runs.set(run.id, run);
    const end = (): void => this.#keepEnded(run);
    run.outcome.then(end, end);
    return run;
  }

  get(id: string): R | undefined {
    return this.#runs.get(id);
  }

  /**
   * Returns a run that this caller started.
   * @throws BridgeError ERR_RUN_UNKNOWN, also if another caller started the run
   */
  find(id: string, caller: ResolvedCaller): R {
    const run = this.#runs.get(id);
    if (run !== undefined && (caller.subject === undefined || run.owner === caller.name)) {
      return run;
    }
    throw new BridgeError(
      'ERR_RUN_UNKNOWN',
      'unknown run: this caller started no run with this id',
    );
  }

  #keepEnded(run: R): void {
    // In the meantime, another run object may have been registered under the same id.
    if (this.#runs.get(run.id) !== run) return;
    const own = this.#ended.get(run.owner) ?? [];
    this.#ended.set(run.owner, [...own, run]);
    this.#endedTotal += 1;
    if (own.length >= this.#limits.perOwner) this.#forgetOldest(run.owner);
    if (this.#endedTotal > this.#limits.total) this.#forgetOldest(this.#ownerOfMost());
  }

  /** Returns the owner with the most ended runs, whose oldest run is removed first. */
  #ownerOfMost(): string {
    const counts = [...this.#ended].map(([owner, { length }]) => ({ owner, length }));
    counts.sort((a, b) => b.length - a.length);
    return counts[0]?.owner ?? '';
  }

  #forgetOldest(owner: string): void {
    const [oldest, ...rest] = this.#ended.get(owner) ?? [];
    if (oldest === undefined) return;
    this.#endedTotal -= 1;
    if (this.#runs.get(oldest.id) === oldest) this.#runs.delete(oldest.id);
    if (rest.length > 0) this.#ended.set(owner, rest);
    else this.#ended.delete(owner);
  }
}
