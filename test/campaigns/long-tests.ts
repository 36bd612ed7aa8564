/** Tests that `npm test` has shorter, or leaves out. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';

const hostile = [
  'dist/test/master/hostile.test.js',
  'dist/test/master/hostile-streams.test.js',
  'dist/test/minion-protocol/stream-strangers.test.js',
  'dist/test/minion-protocol/zeromq-strangers.test.js',
];

/** Hostile input. @returns 1 if a test failed */
export async function runHostile(
  [times = '10', seed = String(Date.now() % 1_000_000)]: readonly string[],
  print: (line: string) => void,
): Promise<number> {
  print(`hostile ${times} ${seed}`);
  return await runTests(hostile, { SALTBRIDGE_EFFORT: times, SALTBRIDGE_SEED: seed });
}

/** Repositories as large as those that are in use. @returns 1 if a test failed */
export async function runGitfs(): Promise<number> {
  return await runTests(['dist/test/master/fileserver/gitfs.test.js'], { SALTBRIDGE_EFFORT: '10' });
}

/** The Debian package. @returns 1 if a test failed */
export async function runPackages(): Promise<number> {
  return await runTests(['dist/test/debian-package.test.js'], { SALTBRIDGE_PACKAGES: '1' });
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
