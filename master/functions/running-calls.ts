import type { WireValue } from '#minion-protocol';
import { Budget, estimateSize, type Limit, LimitExceeded } from '#runtime';
import { type AuditRequester, isOfOperator } from '../api/index.ts';
import { functionLimits } from './limits.ts';

/** Estimated size of a value in memory, besides its text, in bytes. */
const valueBytes = { list: 32, other: 32 } as const;

/** Limits the running calls of users, and the memory for their arguments. */
export class RunningCalls {
  readonly #calls = new Budget(functionLimits.runningCalls);
  readonly #bytes = new Budget(functionLimits.argumentBytes);

  /**
   * Counts a call.
   * @returns a function to call once when the call has ended
   * @throws LimitExceeded
   */
  enter(by: AuditRequester | undefined, args: readonly WireValue[]): () => void {
    // The calls of minions have a limit for each minion.
    if (by === undefined || isOfOperator(by) || by.who.kind === 'minion') return () => {};
    const owner = `${by.who.kind} ${by.who.name}`;
    const bytes = estimateSize(args, valueBytes);
    take(this.#calls, functionLimits.runningCalls, owner, 1);
    try {
      take(this.#bytes, functionLimits.argumentBytes, owner, bytes);
    } catch (error) {
      this.#calls.release(owner);
      throw error;
    }
    return () => {
      this.#calls.release(owner);
      this.#bytes.release(owner, bytes);
    };
  }
}

function take(budget: Budget, limit: Limit, owner: string, amount: number): void {
  if (budget.tryTake(owner, amount)) return;
  throw new LimitExceeded(limit, limit.perOwner ?? 0);
}
