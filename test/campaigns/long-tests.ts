/** Tests that `npm test` runs in a shorter form or not at all. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

const hostile = [
  'test/master/hostile.long.test.ts',
  'test/master/hostile-streams.long.test.ts',
  'test/minion-protocol/stream-strangers.long.test.ts',
  'test/minion-protocol/zeromq-strangers.long.test.ts',
];

/**
 * Runs the tests with hostile input.
 * @returns 1 if a test failed
 */
export async function runHostileTests(
  [times = '10', seed = String(Date.now() % 1_000_000)]: readonly string[],
  print: (line: string) => void,
): Promise<number> {
  print(`hostile-tests ${times} ${seed}`);
  return await runTests(hostile, { SALTBRIDGE_EFFORT: times, SALTBRIDGE_SEED: seed });
}

/**
 * Runs the property tests, which are in many test files.
 * @returns 1 if a test failed
 */
export async function runProperties(
  [times = '20', seed = String(Date.now() % 1_000_000)]: readonly string[],
  print: (line: string) => void,
): Promise<number> {
  print(`properties ${times} ${seed}`);
  const files = readdirSync('test', { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.test.ts'))
    .filter((file) => readFileSync(path.join('test', file), 'utf8').includes('tries('))
    .map((file) => path.join('test', file));
  return await runTests(files, { SALTBRIDGE_EFFORT: times, SALTBRIDGE_SEED: seed });
}

/**
 * Runs the tests with repositories of realistic size.
 * @returns 1 if a test failed
 */
export async function runGitfs(): Promise<number> {
  return await runTests(['test/master/fileserver/gitfs.long.test.ts'], { SALTBRIDGE_EFFORT: '10' });
}

/**
 * Builds and tests the packages for Debian and npm, and the container image.
 * @returns 1 if a test failed
 */
export async function runPackages(): Promise<number> {
  const names = ['debian-package.long', 'npm-package.long', 'container-image', 'release'];
  const files = names.map((name) => `test/${name}.test.ts`);
  return await runTests(files, { SALTBRIDGE_PACKAGES: '1' });
}

async function runTests(
  files: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<number> {
  const argv = ['node_modules/ava/entrypoints/cli.mjs', '-c', '1', '--timeout', '60m', ...files];
  const ava = spawn(process.execPath, argv, { env: { ...process.env, ...env }, stdio: 'inherit' });
  const [code] = await once(ava, 'exit');
  return code === 0 ? 0 : 1;
}
