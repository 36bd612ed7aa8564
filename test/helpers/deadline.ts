/** Waiting for what must happen, with words for when it does not. */

/** So long that only what hangs takes longer, also on a machine with much else to do. */
const defaultMs = 30_000;

/** Resolves with `promise`; rejects, naming `what`, after `ms`. */
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

/** Looks again each few milliseconds until `condition` holds. */
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
