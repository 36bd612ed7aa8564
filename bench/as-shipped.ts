/** Settings that packaging/saltbridge.service sets for the process of a master. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** Option of Node.js. */
export const nodeOption = '--max-semi-space-size=8';
/** Variable of the environment. */
export const memoryVariable = { MALLOC_ARENA_MAX: '1' } as const;

/** Whether this process was started with these settings. */
export function isAsShipped(): boolean {
  return process.execArgv.includes(nodeOption) && process.env.MALLOC_ARENA_MAX === '1';
}

/**
 * Runs a benchmark in a new process with these settings, so that earlier benchmarks do not
 * influence its memory.
 * @param argv - arguments as for `npm run bench`
 * @returns the exit code of the process
 */
export function runAsShipped(...argv: readonly string[]): number {
  const main = fileURLToPath(new URL('./main.ts', import.meta.url));
  const env = { ...process.env, ...memoryVariable };
  const { status } = spawnSync(process.execPath, [nodeOption, main, ...argv], {
    stdio: 'inherit',
    env,
  });
  return status ?? 1;
}
