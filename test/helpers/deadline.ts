/** Functions for waiting with a time limit and a clear error message. */

/**
 * Time limit in milliseconds for an event that must happen. Only a program that hangs takes longer,
 * also on a busy machine. The program that removes protections sets a shorter limit, because it
 * makes many tests hang.
 */
export const waitMs = Number(process.env.TEST_WAIT_MS ?? 120_000);

/**
 * Resolves with the value of `promise`. Rejects with an error that names `what` after `ms`
 * milliseconds.
 */
export async function within<Value>(
  what: string,
  promise: Promise<Value>,
  ms: number = waitMs,
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
  ms: number = waitMs,
): Promise<void> {
  const end = performance.now() + ms;
  while (!condition()) {
    if (performance.now() > end) throw new Error(`waited ${ms} ms for ${what}`);
    await new Promise((resolve) => {
      setTimeout(resolve, 2);
    });
  }
}
