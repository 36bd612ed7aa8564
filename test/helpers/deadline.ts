/** Functions for waiting with a time limit and a clear error message. */

/**
 * So long that only what hangs takes longer, also on a machine with much else to do. The program
 * that removes protections sets a shorter time, because it makes many tests hang.
 */
const defaultMs = Number(process.env.TEST_WAIT_MS ?? 120_000);

/**
 * Resolves with the value of `promise`. Rejects with an error that names `what` after `ms`
 * milliseconds.
 */
export async function within<Value>(
  what: string,
  promise: Promise<Value>,
  ms: number = defaultMs,
): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`waited ${ms} ms for ${what}`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Checks `condition` every few milliseconds until it is true. */
export async function until(
  what: string,
  condition: () => boolean,
  ms: number = defaultMs,
): Promise<void> {
  const end = performance.now() + ms;
  while (!condition()) {
    if (performance.now() > end) throw new Error(`waited ${ms} ms for ${what}`);
    await new Promise((resolve) => {
      setTimeout(resolve, 2);
    });
  }
}
