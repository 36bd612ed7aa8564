/** Fires at the first Ctrl-C; the second one ends the process at once. */
export function interruptionSignal(): AbortSignal {
  const controller = new AbortController();
  process.on('SIGINT', () => {
    if (controller.signal.aborted) process.exit(130);
    controller.abort();
  });
  return controller.signal;
}
