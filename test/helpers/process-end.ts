/**
 * Ends the process of a test file that something keeps alive after its last test, and prints what
 * that is. AVA itself would wait for minutes, and then end the processes of all other test files.
 */

import { fileURLToPath } from 'node:url';
import test, { registerCompletionHandler } from 'ava';

/** Time that a process has to end by itself after its last test, in milliseconds. */
const graceMs = 10_000;

registerCompletionHandler(() => {
  setTimeout(() => {
    const counts: Record<string, number> = {};
    for (const name of process.getActiveResourcesInfo()) counts[name] = (counts[name] ?? 0) + 1;
    const file = fileURLToPath(test.meta.file);
    process.stderr.write(`[kept alive] ${file}: ${JSON.stringify(counts)}\n`);
    process.exit();
  }, graceMs).unref();
});
