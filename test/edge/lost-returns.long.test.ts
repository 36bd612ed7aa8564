/** Returns of a site that is killed: each stored return is in the log of the site once. */

import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import test from 'ava';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

const child = fileURLToPath(new URL('returns-child.ts', import.meta.url));

/** Runs the child. Kills it after a number of lines of its output, if `killAfter` is set. */
function run(
  directory: string,
  mode: 'kill' | 'report' | 'run',
  killAfter = Infinity,
): Promise<{ readonly output: string; readonly signal: NodeJS.Signals | null }> {
  return new Promise((resolve, reject) => {
    const started = spawn(process.execPath, [child, directory, mode]);
    let output = '';
    let errors = '';
    started.stdout.on('data', (data) => {
      output += data;
      if (output.split('\n').length > killAfter) started.kill('SIGKILL');
    });
    started.stderr.on('data', (data) => (errors += data));
    started.on('error', reject);
    started.on('close', (_code, signal) => {
      if (errors === '') resolve({ output, signal });
      else reject(new Error(errors));
    });
  });
}

interface Report {
  readonly stored: readonly string[];
  readonly logged: readonly string[];
}

async function reportOf(directory: string): Promise<Report> {
  const { output } = await run(directory, 'report');
  return JSON.parse(output) as Report; // written by the child
}

// EDGE-C14 of docs/consistency.md
test('a return that was stored before a crash is in the log of the site after the next start', async (t) => {
  t.timeout(120_000);
  const directory = temporaryDirectory(t);
  t.is((await run(directory, 'kill')).signal, 'SIGKILL');
  const { stored, logged } = await reportOf(directory);
  t.is(stored.length, 1);
  t.deepEqual(logged, stored);
  t.deepEqual((await reportOf(directory)).logged, logged, 'a further start appends nothing');
});

test('the log has each stored return once after ten crashes', async (t) => {
  t.timeout(600_000);
  const directory = temporaryDirectory(t);
  for (let round = 0; round < 10; round += 1) {
    const returns = 2 + Math.floor(Math.random() * 40);
    t.is((await run(directory, 'run', returns)).signal, 'SIGKILL');
  }
  const { stored, logged } = await reportOf(directory);
  t.true(stored.length > 10, `${stored.length} returns`);
  t.deepEqual(logged.toSorted(), stored.toSorted());
});
