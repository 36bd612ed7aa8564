/** Asks again, one question at a time, until the answer is yes; for what no event tells. */
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
