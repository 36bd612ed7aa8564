/** Functions to call when a signal is aborted. */
const waiting = new WeakMap<AbortSignal, { readonly calls: Set<() => void>; end: () => void }>();

/**
 * Calls a function when a signal is aborted. The signal must not be aborted yet. Registering and
 * cancelling the call take constant time, whereas `addEventListener` searches all listeners of the
 * signal.
 * @returns a function that cancels the call
 */
export function onAbort(signal: AbortSignal, call: () => void): () => void {
  const entry = waiting.get(signal) ?? createEntry(signal);
  entry.calls.add(call);
  return () => {
    entry.calls.delete(call);
    if (entry.calls.size > 0 || waiting.get(signal) !== entry) return;
    waiting.delete(signal);
    signal.removeEventListener('abort', entry.end);
  };
}

function createEntry(signal: AbortSignal): { readonly calls: Set<() => void>; end: () => void } {
  const calls = new Set<() => void>();
  const end = (): void => {
    waiting.delete(signal);
    for (const call of [...calls]) call();
  };
  const entry = { calls, end };
  waiting.set(signal, entry);
  signal.addEventListener('abort', end, { once: true });
  return entry;
}
