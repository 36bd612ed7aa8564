/**
 * A process that competes for the lock of the directory in its first argument. On `take` it tries
 * once and keeps the lock. On `churn` it takes and releases the lock several times.
 */
import { once } from 'node:events';
import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { inspect } from 'node:util';
import { isDirectoryLocked, lockDirectory } from '#store/directory.ts';

const directory = process.argv[2] ?? '';
/**
 * File that is created exclusively while the lock is held. Its creation fails if two processes hold
 * the lock at once.
 */
const evidence = path.join(path.dirname(directory), 'evidence');

async function tryToTake(): Promise<string> {
  try {
    await lockDirectory(directory);
    return 'held';
  } catch (error) {
    return error instanceof Error && 'code' in error ? String(error.code) : String(error);
  }
}

async function churn(times: number): Promise<string> {
  for (let done = 0; done < times; ) {
    const lock = await lockDirectory(directory).catch((error: unknown) => {
      if (!(error instanceof Error && 'code' in error && error.code === 'ERR_STORE_LOCKED')) {
        throw error;
      }
    });
    if (lock === undefined) continue;
    writeFileSync(evidence, String(process.pid), { flag: 'wx' });
    if (!(await isDirectoryLocked(directory))) throw new Error('held, and not locked');
    rmSync(evidence);
    done += 1;
    await lock.release();
  }
  return 'churned';
}

// The channel to the parent must not keep the process alive.
setInterval(() => {}, 60_000);
process.send?.('ready');
for (;;) {
  const [told] = await once(process, 'message');
  const answer = told === 'take' ? tryToTake() : churn(Number(told));
  process.send?.(await answer.catch((error: unknown) => inspect(error)));
}
