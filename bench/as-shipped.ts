/** What packaging/saltbridge.service sets for the process of a master. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const nodeOption = '--max-semi-space-size=8';
const variable = { MALLOC_ARENA_MAX: '1' } as const;

/** Whether this process was started so. */
export function isAsShipped(): boolean {
  return process.execArgv.includes(nodeOption) && process.env.MALLOC_ARENA_MAX === '1';
}

/**
 * Runs a bench in a process of its own that is started so; what ran before it is not in its memory.
 * @param argv what `npm run bench` would be given
 * @returns its exit code
 */
export function runAsShipped(...argv: readonly string[]): number {
  const main = fileURLToPath(new URL('./main.ts', import.meta.url));
  const env = { ...process.env, ...variable };
  const { status } = spawnSync(process.execPath, [nodeOption, main, ...argv], {
    stdio: 'inherit',
    env,
  });
  return status ?? 1;
}
