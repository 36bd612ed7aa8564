/** Returns a signal that fires at the first Ctrl-C. The second one ends the process immediately. */
export function interruptionSignal(): AbortSignal {
  const controller = new AbortController();
  process.on('SIGINT', () => {
    if (controller.signal.aborted) process.exit(130);
    controller.abort();
  });
  return controller.signal;
}
