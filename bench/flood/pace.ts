import { setTimeout as sleep } from 'node:timers/promises';
import type { FloodOutcome } from './orders.ts';

const tickMs = 5;

/**
 * Calls `act` at a given rate, without waiting for the results. Delayed calls are made at the next
 * tick.
 */
export async function atRate(perSecond: number, seconds: number, act: () => void): Promise<void> {
  const startedAt = performance.now();
  for (let done = 0, elapsed = 0; elapsed < seconds * 1000; ) {
    elapsed = performance.now() - startedAt;
    const due = Math.floor((Math.min(elapsed, seconds * 1000) / 1000) * perSecond);
    for (; done < due; done += 1) act();
    await sleep(tickMs);
  }
}

/** Measures the durations until replies arrive. */
export class Stopwatch {
  readonly #times: number[] = [];
  readonly #due = new Set<Promise<void>>();
  sent = 0;

  /** Counts a request, and measures the time until its reply. Never rejects. */
  watch(request: Promise<unknown>): Promise<void> {
    this.sent += 1;
    const watched = this.#time(request);
    this.#due.add(watched);
    return watched.finally(() => this.#due.delete(watched));
  }

  async #time(request: Promise<unknown>): Promise<void> {
    const startedAt = performance.now();
    try {
      await request;
      this.#times.push(performance.now() - startedAt);
    } catch {
      // There is no reply. The request counts as unanswered.
    }
  }

  /** Waits until all replies have arrived, but at most `milliseconds`. */
  async settle(milliseconds: number): Promise<void> {
    await Promise.race([Promise.allSettled(this.#due), sleep(milliseconds)]);
  }

  outcome(): FloodOutcome {
    const times = [...this.#times].sort((a, b) => a - b);
    const at = (share: number): number => times[Math.floor((times.length - 1) * share)] ?? 0;
    return {
      sent: this.sent,
      answered: times.length,
      medianMs: at(0.5),
      ms99: at(0.99),
      longestMs: at(1),
    };
  }
}
