/** Registry of the active runs, and of the latest ended runs of each caller. */

import type { BudgetLimits, LimitValues } from '#runtime';
import { BridgeError } from '../errors.ts';
import { bridgeLimits } from '../limits.ts';
import type { ResolvedCaller } from './callers.ts';

/** Fields of a run of a command or plan that the registry reads. */
interface RegisteredRun {
  readonly id: string;
  /** Name of the caller. */
  readonly owner: string;
  readonly outcome: Promise<unknown>;
  /** Size of the minions' returns in the run, in bytes. */
  readonly returnBytes: number;
  /** Removes the returns from the run. Called only after the run has ended. */
  dropReturns(): void;
}

/** Runs by id: the active ones, and the latest ended ones of each caller. */
export class RunRegistry<R extends RegisteredRun> {
  readonly #limits: BudgetLimits;
  readonly #maxBytes: LimitValues;
  readonly #runs = new Map<string, R>();
  /** Ended runs by owner, the oldest first. */
  readonly #ended = new Map<string, R[]>();
  #endedTotal = 0;
  #endedBytes = 0;

  /**
   * Creates the registry.
   * @param limits - maximum number of ended runs, per owner and in total
   * @param maxBytes - maximum size of the returns in these runs, in bytes, per owner and in total
   */
  constructor(limits: BudgetLimits, maxBytes: LimitValues = bridgeLimits.endedReturnBytes) {
    this.#limits = limits;
    this.#maxBytes = maxBytes;
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
    this.#endedBytes += run.returnBytes;
    if (own.length >= this.#limits.perOwner) this.#forgetOldest(run.owner);
    if (this.#endedTotal > this.#limits.total) {
      this.#forgetOldest(this.#ownerOfMost(({ length }) => length));
    }
    this.#dropReturns(run.owner);
  }

  /**
   * Removes the returns of the oldest ended runs until the size of all returns is within the
   * limits. First applies the limit of this owner. Then applies the limit of all owners together,
   * and chooses runs of the owner with the most bytes.
   */
  #dropReturns(owner: string): void {
    const { perOwner = Infinity, total = Infinity } = this.#maxBytes;
    while (bytesOf(this.#ended.get(owner)) > perOwner) this.#dropOldest(owner);
    while (this.#endedBytes > total) this.#dropOldest(this.#ownerOfMost(bytesOf));
  }

  #dropOldest(owner: string): void {
    const oldest = this.#ended.get(owner)?.find(({ returnBytes }) => returnBytes > 0);
    this.#endedBytes -= oldest?.returnBytes ?? 0;
    oldest?.dropReturns();
  }

  /** Returns the owner for whose list of ended runs `amountOf` returns the highest number. */
  #ownerOfMost(amountOf: (runs: readonly R[]) => number): string {
    const amounts = [...this.#ended].map(([owner, runs]) => ({ owner, amount: amountOf(runs) }));
    amounts.sort((a, b) => b.amount - a.amount);
    return amounts[0]?.owner ?? '';
  }

  #forgetOldest(owner: string): void {
    const [oldest, ...rest] = this.#ended.get(owner) ?? [];
    if (oldest === undefined) return;
    this.#endedTotal -= 1;
    this.#endedBytes -= oldest.returnBytes;
    if (this.#runs.get(oldest.id) === oldest) this.#runs.delete(oldest.id);
    if (rest.length > 0) this.#ended.set(owner, rest);
    else this.#ended.delete(owner);
  }
}

function bytesOf(runs: readonly RegisteredRun[] = []): number {
  return runs.reduce((sum, { returnBytes }) => sum + returnBytes, 0);
}
