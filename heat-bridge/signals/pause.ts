/** Waits so long, or until the signal. */
export function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, Math.min(Math.max(0, milliseconds), 2 ** 31 - 1));
    signal.addEventListener('abort', end, { once: true });
  });
}
