import type { WireValue } from '#minion-protocol';
import { Budget, estimateSize, LimitExceeded, releaseAll, tryTakeAll } from '#runtime';
import { type AuditRequester, limitOwnerOf } from '../api/index.ts';
import { functionLimits } from './limits.ts';

/**
 * Estimated memory of each list or map, and of each other value, in bytes. The lengths of texts are
 * added.
 */
const valueBytes = { list: 32, other: 32 } as const;

/**
 * Limits the number of running calls and the size of their arguments, for each user and in total.
 */
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
    const owner = by?.who.kind === 'minion' ? undefined : limitOwnerOf(by);
    if (owner === undefined) return () => {};
    const amount = estimateSize(args, valueBytes);
    const parts = [
      { budget: this.#calls, owner, amount: 1, limit: functionLimits.runningCalls },
      { budget: this.#bytes, owner, amount, limit: functionLimits.argumentBytes },
    ];
    const full = tryTakeAll(parts);
    if (full !== undefined) throw new LimitExceeded(full.limit);
    return () => releaseAll(parts);
  }
}
