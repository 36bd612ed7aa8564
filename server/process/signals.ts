/**
 * Resolves with the first SIGTERM or SIGINT. A second signal ends the process immediately, because
 * closing may hang.
 */
export function terminationSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let isEnding = false;
    const end = (signal: NodeJS.Signals, number: number): void => {
      if (isEnding) process.exit(128 + number);
      isEnding = true;
      resolve(signal);
    };
    process.on('SIGINT', () => end('SIGINT', 2));
    process.on('SIGTERM', () => end('SIGTERM', 15));
  });
}

/**
 * Calls `act` for each signal of this name, instead of the default action. Calls do not overlap.
 * @param act - must not throw
 */
export function onSignal(name: NodeJS.Signals, act: () => Promise<void> | void): void {
  let last = Promise.resolve();
  process.on(name, () => {
    last = last.then(act);
  });
}
