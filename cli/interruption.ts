/**
 * Returns a signal that is aborted at the first Ctrl-C. The second Ctrl-C ends the process
 * immediately.
 */
export function interruptionSignal(): AbortSignal {
  const controller = new AbortController();
  process.on('SIGINT', () => {
    if (controller.signal.aborted) process.exit(130);
    controller.abort();
  });
  return controller.signal;
}
