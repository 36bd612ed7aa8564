import { isWireMap, type WireValue } from '#minion-protocol';
import { Budget, type Limit, LimitExceeded } from '#runtime';
import type { AuditRequester } from '../api/index.ts';
import { functionLimits } from './limits.ts';

/**
 * Requesters whose calls are not limited here. The calls of minions have a limit for each minion.
 */
const unlimited: ReadonlySet<string> = new Set(['local', 'master', 'minion', 'service']);

/** Estimated size of a value in memory, besides its text, in bytes. */
const valueBytes = 32;

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
    if (by === undefined || unlimited.has(by.who.kind)) return () => {};
    const owner = `${by.who.kind} ${by.who.name}`;
    const bytes = sizeOf([...args]);
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

/** Estimates the size of a value in memory, in bytes. */
function sizeOf(value: WireValue): number {
  let bytes = 0;
  const left: WireValue[] = [value];
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    bytes += valueBytes;
    if (typeof next === 'string') bytes += next.length;
    else if (next instanceof Uint8Array) bytes += next.byteLength;
    else if (Array.isArray(next)) for (const each of next) left.push(each);
    else if (next instanceof Map) for (const entry of next) left.push(...entry);
    else if (isWireMap(next)) {
      for (const [key, each] of Object.entries(next)) {
        bytes += key.length;
        left.push(each);
      }
    }
  }
  return bytes;
}
