/**
 * One signal of several. `AbortSignal.any` does the same, but in Node 20 what it makes and somebody
 * listens to stays in memory for as long as the signals that it was made of.
 */
export interface LinkedSignal {
  /** Aborted as soon as one of the others is, with its reason. */
  readonly signal: AbortSignal;
  /** Lets go of the others; also done when one is aborted. */
  unlink(): void;
}

/** @param signals - those that may be missing are left out */
export function linkSignals(...signals: readonly (AbortSignal | undefined)[]): LinkedSignal {
  const controller = new AbortController();
  const sources = signals.filter((signal) => signal !== undefined);
  const unlink = (): void => {
    for (const source of sources) source.removeEventListener('abort', onAbort);
  };
  const onAbort = (event: Event): void => abort(event.target);
  const abort = (source: unknown): void => {
    unlink();
    controller.abort(source instanceof AbortSignal ? source.reason : undefined);
  };
  const aborted = sources.find((source) => source.aborted);
  if (aborted === undefined) for (const it of sources) it.addEventListener('abort', onAbort);
  else abort(aborted);
  return { signal: controller.signal, unlink };
}
