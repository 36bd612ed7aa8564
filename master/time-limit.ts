import { longestTimerMs } from './longest-timer.ts';

/** A time that passes. */
export interface TimeLimit {
  /** Fires when it has. */
  readonly signal: AbortSignal;
  /** It is waited for no longer. */
  clear(): void;
}

/** Begins now. @param milliseconds longer ones end where timers do, after 24 days */
export function timeLimit(milliseconds: number): TimeLimit {
  const time = new AbortController();
  const left = Math.min(Math.max(0, milliseconds), longestTimerMs);
  const timer = setTimeout(() => time.abort(), left);
  return { signal: time.signal, clear: () => clearTimeout(timer) };
}
