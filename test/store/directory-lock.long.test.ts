/** Only one process can open a store at a time, even if processes share nothing but the kernel. */
import { type ChildProcess, execFileSync, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import test, { type ExecutionContext } from 'ava';
import { openEmbeddedStore, StoreError } from '#store';
import { isDirectoryLocked, lockDirectory } from '#store/directory.ts';
import { encodeKey } from '#store/key-bytes.ts';
import { openLmdbTables } from '#store/lmdb-tables.ts';
import { within } from '../helpers/deadline.ts';
import { testWhere } from '../helpers/needs.ts';
import { hasNamespaces } from '../helpers/network-namespace.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

const contender = fileURLToPath(new URL('../store-suite/lock-contender.ts', import.meta.url));
const locked = { instanceOf: StoreError, code: 'ERR_STORE_LOCKED' };
const withNamespaces = testWhere(hasNamespaces, 'root and the packages iproute2 and util-linux');

function newDirectory(t: ExecutionContext): string {
  const directory = path.join(temporaryDirectory(t), 'store');
  mkdirSync(directory, { mode: 0o700 });
  return directory;
}

async function answerOf(child: ChildProcess): Promise<unknown> {
  const [answer] = await within('a contender', once(child, 'message'));
  return answer;
}

async function startContenders(
  t: ExecutionContext,
  directory: string,
  count: number,
): Promise<ChildProcess[]> {
  const children = Array.from({ length: count }, () => fork(contender, [directory]));
  t.teardown(() => {
    for (const child of children) child.kill('SIGKILL');
  });
  await Promise.all(children.map(answerOf));
  return children;
}

async function kill(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

test('exactly one of many processes that start at once has the directory, after each kill -9', async (t) => {
  const directory = newDirectory(t);
  let children = await startContenders(t, directory, 8);
  while (children.length > 0) {
    const answers = children.map(answerOf);
    for (const child of children) child.send('take');
    const outcomes = await Promise.all(answers);
    const holders = children.filter((_, index) => outcomes[index] === 'held');
    t.is(holders.length, 1, `${children.length} contenders: ${outcomes.join(', ')}`);
    t.true(outcomes.every((it) => it === 'held' || it === 'ERR_STORE_LOCKED'));
    for (const holder of holders) await kill(holder);
    children = children.filter((child) => !holders.includes(child));
  }
  t.false(await isDirectoryLocked(directory));
});

test('processes that take the directory and give it back never have it together', async (t) => {
  const directory = newDirectory(t);
  const children = await startContenders(t, directory, 6);
  const answers = children.map(answerOf);
  for (const child of children) child.send(40);
  t.deepEqual(
    await Promise.all(answers),
    children.map(() => 'churned'),
  );
  // Files of processes that came too late do not accumulate.
  await (await lockDirectory(directory)).release();
  t.is(readdirSync(directory).length, 1);
});

withNamespaces(
  'a process in another network and process namespace keeps the directory, and leaves it when it is killed',
  async (t) => {
    const directory = newDirectory(t);
    const name = `saltbridge-${process.pid}`;
    execFileSync('ip', ['netns', 'add', name]);
    t.teardown(() => execFileSync('ip', ['netns', 'del', name]));
    const command = ['netns', 'exec', name, 'unshare', '--pid', '--fork', '--kill-child'];
    const child = spawn('ip', [...command, process.execPath, contender, directory], {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    t.teardown(() => child.kill('SIGKILL'));
    await answerOf(child);
    child.send('take');
    t.is(await answerOf(child), 'held');
    await t.throwsAsync(openEmbeddedStore({ directory }), locked);
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
    const store = await openEmbeddedStore({ directory });
    t.teardown(() => store.close());
    const answer = startAgain(t, name, directory);
    t.is(await answer, 'ERR_STORE_LOCKED');
  },
);

async function startAgain(
  t: ExecutionContext,
  namespace: string,
  directory: string,
): Promise<unknown> {
  const child = spawn('ip', ['netns', 'exec', namespace, process.execPath, contender, directory], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  await answerOf(child);
  child.send('take');
  return answerOf(child);
}

test('a directory that is given back in a moment is waited for', async (t) => {
  const directory = newDirectory(t);
  const first = await lockDirectory(directory);
  const second = lockDirectory(directory);
  await first.release();
  await (await second).release();
  t.pass();
});

test('the refusal names the process that has the directory', async (t) => {
  const directory = newDirectory(t);
  const lock = await lockDirectory(directory);
  t.teardown(() => lock.release());
  const error = await t.throwsAsync(lockDirectory(directory), locked);
  t.true(error?.message.includes(`process ${process.pid} on `), error?.message);
});

test('a holder that answers nothing has the directory all the same', async (t) => {
  const directory = newDirectory(t);
  const silent = createServer(() => {}).listen(path.join(directory, 'holder-7'));
  await once(silent, 'listening');
  t.teardown(() => silent.close());
  await t.throwsAsync(lockDirectory(directory), locked);
});

test('a socket that is silent, and gone a moment later, was the copy of a starting program', async (t) => {
  const directory = newDirectory(t);
  const copy = createServer(() => copy.close()).listen(path.join(directory, 'holder-7'));
  await once(copy, 'listening');
  t.false(await isDirectoryLocked(directory));
});

test('a directory whose path is longer than the address of a socket is locked as well', async (t) => {
  const directory = path.join(newDirectory(t), 'd'.repeat(120));
  mkdirSync(directory, { mode: 0o700 });
  const lock = await lockDirectory(directory);
  await t.throwsAsync(lockDirectory(directory), locked);
  await lock.release();
  t.false(await isDirectoryLocked(directory));
});

test('a holder that lost its lock files leaves the record of the next holder on release', async (t) => {
  const directory = newDirectory(t);
  const former = await lockDirectory(directory);
  rmSync(path.join(directory, 'holder-1'));
  const [next] = await startContenders(t, directory, 1);
  if (next === undefined) throw new Error('no contender');
  const answer = answerOf(next);
  next.send('take');
  t.is(await answer, 'held');
  await former.release();
  t.is(JSON.parse(readFileSync(path.join(directory, 'holder.json'), 'utf8')).pid, next.pid);
});

test('each process that opens a store has a higher epoch, also where the files of the lock were lost', async (t) => {
  const directory = newDirectory(t);
  const epochs: number[] = [];
  for (let i = 0; i < 3; i += 1) {
    const store = await openEmbeddedStore({ directory });
    epochs.push(store.holder.epoch);
    t.is(store.holder.pid, process.pid);
    await store.close();
    execFileSync('rm', ['-f', path.join(directory, `holder-${i + 1}`)]);
  }
  t.deepEqual(epochs, [1, 2, 3]);
});

test('a store writes nothing once another process has recorded itself as its holder', async (t) => {
  const directory = newDirectory(t);
  const store = await openEmbeddedStore({ directory });
  t.teardown(() => store.close());
  await store.write([{ op: 'put', key: ['a'], value: Buffer.from('1') }]);
  const tables = openLmdbTables(directory);
  const other = Buffer.from(JSON.stringify({ ...store.holder, epoch: store.holder.epoch + 1 }));
  await tables.transaction(() => tables.meta.put(encodeKey(['holder']), other));
  const write = store.write([{ op: 'put', key: ['a'], value: Buffer.from('2') }]);
  await t.throwsAsync(write, { instanceOf: StoreError, code: 'ERR_STORE_FENCED' });
  t.is((await store.get(['a']))?.value.toString(), '1');
});
