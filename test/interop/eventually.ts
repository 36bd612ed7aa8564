/**
 * Repeats a check, one call at a time, until it succeeds. Used for conditions about which there is
 * no event.
 */
export async function eventually(
  what: string,
  ask: () => Promise<boolean>,
  ms = 60_000,
  everyMs = 20,
): Promise<void> {
  const end = performance.now() + ms;
  while (!(await ask())) {
    if (performance.now() > end) throw new Error(`waited ${ms} ms for ${what}`);
    await new Promise((resolve) => {
      setTimeout(resolve, everyMs);
    });
  }
}
