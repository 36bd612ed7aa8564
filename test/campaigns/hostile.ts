/** The tests of hostile input that `npm test` has, longer. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';

const files = [
  'dist/test/master/hostile.test.js',
  'dist/test/master/hostile-streams.test.js',
  'dist/test/minion-protocol/stream-strangers.test.js',
  'dist/test/minion-protocol/zeromq-strangers.test.js',
];

/** @returns 1 if a test failed */
export async function runHostile(
  [times = '10', seed = String(Date.now() % 1_000_000)]: readonly string[],
  print: (line: string) => void,
): Promise<number> {
  print(`hostile ${times} ${seed}`);
  const argv = ['node_modules/ava/entrypoints/cli.mjs', '-c', '1', '--timeout', '60m', ...files];
  const env = { ...process.env, SALTBRIDGE_EFFORT: times, SALTBRIDGE_SEED: seed };
  const ava = spawn(process.execPath, argv, { env, stdio: 'inherit' });
  const [code] = await once(ava, 'exit');
  return code === 0 ? 0 : 1;
}
