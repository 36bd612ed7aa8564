/** What comes; `undefined` where the signal fires first. */
export async function inTime<T>(coming: Promise<T>, end: AbortSignal): Promise<T | undefined> {
  if (end.aborted) return undefined;
  return Promise.race([
    coming,
    new Promise<undefined>((resolve) => {
      end.addEventListener('abort', () => resolve(undefined), { once: true });
    }),
  ]);
}
