/** What comes; `undefined` where the signal fires first. */
export function inTime<T>(coming: Promise<T>, end: AbortSignal): Promise<T | undefined> {
  const ended = new Promise<undefined>((resolve) => {
    if (end.aborted) resolve(undefined);
    end.addEventListener('abort', () => resolve(undefined), { once: true });
  });
  return Promise.race([coming, ended]);
}
