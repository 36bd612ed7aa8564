/**
 * Identifies the process that holds a directory, so that the master never ends another process
 * instead.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { endHolder } from '#store';
import { type ProcessIdentity, recordOwnProcess } from '#store/process-identity.ts';
import { within } from '../helpers/deadline.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

const generation = 7;

function startProcess(t: ExecutionContext): { readonly child: ChildProcess; readonly pid: number } {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)']);
  t.teardown(() => child.kill('SIGKILL'));
  if (child.pid === undefined) throw new Error('no process');
  return { child, pid: child.pid };
}

function startTicksOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]);
}

/** Creates a directory whose lock file names another process. */
async function directoryOf(t: ExecutionContext, change: Partial<ProcessIdentity>): Promise<string> {
  const directory = temporaryDirectory(t);
  await recordOwnProcess(directory, generation);
  const file = path.join(directory, 'holder.json');
  const own = JSON.parse(readFileSync(file, 'utf8'));
  t.is(statSync(file).mode & 0o777, 0o600);
  writeFileSync(file, JSON.stringify({ ...own, ...change }));
  return directory;
}

test('a holder of this account is ended, even if it is stopped', async (t) => {
  const { child, pid } = startProcess(t);
  const directory = await directoryOf(t, { pid, startTicks: startTicksOf(pid) });
  child.kill('SIGSTOP');
  const ended = once(child, 'exit');
  t.deepEqual(await endHolder(directory, generation), { isEnded: true, pid });
  const [, signal] = await within('its end', ended);
  t.is(signal, 'SIGKILL');
});

test('a process that reuses the id of a former holder is not ended', async (t) => {
  const { child, pid } = startProcess(t);
  const directory = await directoryOf(t, { pid, startTicks: startTicksOf(pid) - 1 });
  t.deepEqual(await endHolder(directory, generation), { isEnded: true, pid });
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  const [, signal] = await within('its end', ended);
  t.is(signal, 'SIGTERM');
});

test('a holder of another PID namespace or another kernel is not ended', async (t) => {
  const { child, pid } = startProcess(t);
  const startTicks = startTicksOf(pid);
  const others = [{ pidNamespace: 'pid:[1]' }, { bootId: 'another' }];
  for (const other of others) {
    const directory = await directoryOf(t, { pid, startTicks, ...other });
    t.like(await endHolder(directory, generation), { isEnded: false });
  }
  const directory = await directoryOf(t, { pid, startTicks });
  t.like(await endHolder(directory, generation + 1), { isEnded: false });
  t.like(await endHolder(temporaryDirectory(t), generation), { isEnded: false });
  t.is(child.signalCode, null);
  t.true(process.kill(pid, 0));
});
