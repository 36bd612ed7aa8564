import { longestTimerMs } from '../../master/index.ts';

/** Waits so long, or until one of the signals. */
export function pause(milliseconds: number, ...signals: readonly AbortSignal[]): Promise<void> {
  if (signals.some(({ aborted }) => aborted)) return Promise.resolve();
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      for (const signal of signals) signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, Math.min(Math.max(0, milliseconds), longestTimerMs));
    for (const signal of signals) signal.addEventListener('abort', end, { once: true });
  });
}
