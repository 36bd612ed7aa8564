import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import test, { type ExecutionContext } from 'ava';

const signals = new URL('../../cli/process.js', import.meta.url);

/** A process that says when it waits and when it was told to end, but never ends by itself. */
function spawnWaiting(t: ExecutionContext, wait: string): ChildProcessWithoutNullStreams {
  const source = `
    import * as signals from ${JSON.stringify(signals.href)};
    setInterval(() => {}, 1_000_000);
    ${wait}
  `;
  const child = spawn(process.execPath, ['--input-type=module', '-e', source]);
  t.teardown(() => child.kill('SIGKILL'));
  return child;
}

test('the first SIGTERM asks for the end, the second one is it', async (t) => {
  const child = spawnWaiting(
    t,
    `const terminated = signals.terminationSignal();
     console.log('waiting');
     console.log(await terminated);`,
  );
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  t.is((await lines.next()).value, 'waiting');
  child.kill('SIGTERM');
  t.is((await lines.next()).value, 'SIGTERM');
  child.kill('SIGTERM');
  t.deepEqual(await once(child, 'exit'), [143, null]);
});

test('the first Ctrl-C interrupts, the second one ends', async (t) => {
  const child = spawnWaiting(
    t,
    `const interrupted = signals.interruptionSignal();
     interrupted.addEventListener('abort', () => console.log('interrupted'));
     console.log('waiting');`,
  );
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  t.is((await lines.next()).value, 'waiting');
  child.kill('SIGINT');
  t.is((await lines.next()).value, 'interrupted');
  child.kill('SIGINT');
  t.deepEqual(await once(child, 'exit'), [130, null]);
});
