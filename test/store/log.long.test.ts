/** The replicated store: members apply the same entries of a log. */
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { foundLog } from '#cluster/log/founding.ts';
import type { LogStore } from '#cluster/log/log-store.ts';
import type { ReplayPoint } from '#cluster/log/replay.ts';
import { replayLog } from '#cluster/log/replay.ts';
import { readViewState } from '#cluster/log/view.ts';
import { detachFromLog, type Operation, openEmbeddedStore, restoreStore, StoreError } from '#store';
import { openLmdbTables } from '#store/lmdb-tables.ts';
import { until } from '../helpers/deadline.ts';
import { contentOf, type MemberOptions, spoilStore, TestCluster } from '../store-suite/cluster.ts';

/** Timeouts in milliseconds that suffice on a busy machine. */
const soon = { writeTimeoutMs: 2000, memberTimeoutMs: 3000 };

function put(name: string, value = name): Operation {
  return { op: 'put', key: ['k', name], value: Buffer.from(value) };
}

function refused(code: string): { readonly instanceOf: typeof StoreError; readonly code: string } {
  return { instanceOf: StoreError, code };
}

/** Starts a cluster with its first members, one for each name. */
async function start(t: ExecutionContext, names: string, options: MemberOptions = {}) {
  const cluster = new TestCluster(t);
  await cluster.found();
  const stores: LogStore[] = [];
  for (const name of names) stores.push(await cluster.open(name, options));
  const [a, b, c] = stores;
  if (a === undefined) throw new Error('no member');
  return { cluster, a, b: b ?? a, c: c ?? a };
}

/** Returns the hash in the store of a closed member. */
async function hashOf(cluster: TestCluster, member: string): Promise<unknown> {
  const tables = openLmdbTables(cluster.directoryOf(member), true);
  const { position, hash } = readViewState(tables) ?? {};
  await tables.close();
  return { position, hash };
}

test('a write by one member reaches all members, in the same order, with the same hash', async (t) => {
  const { cluster, a, b } = await start(t, 'ab');
  const watch = b.watch(['k'], new AbortController().signal)[Symbol.asyncIterator]();
  await Promise.all(
    Array.from({ length: 50 }, (_, i) => (i % 2 === 0 ? a : b).write([put(String(i % 7), `${i}`)])),
  );
  await a.write([{ op: 'delete-prefix', prefix: ['k', '3'] }]);
  await Promise.all([a.barrier(), b.barrier()]);
  t.deepEqual(await contentOf(a), await contentOf(b));
  t.is((await watch.next()).value?.entry?.revision, 1);
  await a.close();
  await until('the last entry', () => b.status.position === cluster.log.last);
  await b.close();
  t.deepEqual(await hashOf(cluster, 'a'), await hashOf(cluster, 'b'));
});

test('conditions are decided by the order of the log, for all members alike', async (t) => {
  const { a, b } = await start(t, 'ab');
  const claim: Operation = { op: 'put', key: ['lock'], value: Buffer.from(''), ifRevision: 0 };
  const outcomes = await Promise.allSettled(
    Array.from({ length: 20 }, (_, i) => (i % 2 === 0 ? a : b).write([claim])),
  );
  t.is(outcomes.filter(({ status }) => status === 'fulfilled').length, 1);
  await b.barrier();
  t.deepEqual(await contentOf(a), await contentOf(b));
});

test('a token replaced by another member fences a write', async (t) => {
  const { a, b } = await start(t, 'ab');
  const lease: Operation = { op: 'put', key: ['lease'], value: Buffer.from('a') };
  const token = await a.write([lease]);
  const fence: Operation = { op: 'require', key: ['lease'], ifRevision: token };
  await a.write([fence, put('x')]);
  await b.write([{ ...lease, ifRevision: token }]);
  await t.throwsAsync(a.write([fence, put('y')]), refused('ERR_REVISION'));
  t.is(await a.get(['k', 'y']), undefined);
});

test('clocks that differ by a minute have no effect on members', async (t) => {
  const cluster = new TestCluster(t);
  const clocks = { a: 1_000_000, b: 1_060_000 };
  await cluster.found(() => clocks.a);
  const a = await cluster.open('a', { now: () => clocks.a });
  const b = await cluster.open('b', { now: () => clocks.b });
  const expiresAt = 1_030_000;
  const key = ['k', 'brief'];
  await a.write([{ op: 'put', key, value: Buffer.from(''), expiresAt }]);
  clocks.a += 2000;
  await a.write([{ op: 'append', stream: 's', value: Buffer.from('1') }]);
  // By the time in the log, the entry has not expired yet.
  await t.throwsAsync(
    a.write([{ op: 'put', key, value: Buffer.from(''), ifRevision: 0 }]),
    refused('ERR_REVISION'),
  );
  await b.write([{ op: 'append', stream: 's', value: Buffer.from('2') }]);
  // Now it has expired, because b's entry has advanced the time in the log.
  await a.write([{ op: 'put', key, value: Buffer.from('again'), ifRevision: 0 }]);
  const times = (await a.stream('s').read()).map(({ appendedAt }) => appendedAt);
  t.deepEqual(times, [1_002_000, 1_060_000]);
  await Promise.all([a.barrier(), b.barrier()]);
  await a.close();
  await until('the last entry', () => b.status.position === cluster.log.last);
  await b.close();
  t.deepEqual(await hashOf(cluster, 'a'), await hashOf(cluster, 'b'));
});

test('a write is acknowledged only when a second member has applied it', async (t) => {
  const { cluster, a, b } = await start(t, 'ab', { writeTimeoutMs: soon.writeTimeoutMs });
  await a.write([put('heard')]);
  cluster.log.isQuiet = true;
  const error = await t.throwsAsync(a.write([put('unheard')]), refused('ERR_CLUSTER_OUTCOME'));
  t.regex(error?.message ?? '', /stored on this member/);
  cluster.log.isQuiet = false;
  await until('the other member', () => !a.status.isAlone);
  await a.write([put('again')]);
  t.truthy(await b.get(['k', 'again']));
});

test('with too few members alive no write is accepted, unless a member may continue alone', async (t) => {
  const { cluster, a, b } = await start(t, 'ab', soon);
  await b.close();
  await until('its silence', () => a.status.isAlone);
  const { last } = cluster.log;
  await t.throwsAsync(a.write([put('x')]), refused('ERR_CLUSTER_ALONE'));
  t.is(cluster.log.last, last);
  await a.close();
  const alone = await cluster.open('a', { ...soon, whenAlone: 'local' });
  await until('the silence of the other', () => alone.status.isAlone);
  await alone.write([put('x')]);
  await alone.removeMember('b');
  t.deepEqual(
    alone.status.members.map(({ name }) => name),
    ['a'],
  );
});

test('a majority is more than half of all members, including dead ones', async (t) => {
  const { cluster, a, b, c } = await start(t, 'abc');
  for (const store of [a, b, c]) await store.close();
  const first = cluster.open('a', { ...soon, acknowledge: 'majority' });
  const second = cluster.open('b', { ...soon, acknowledge: 'majority' });
  const [one, two] = await Promise.all([first, second]);
  await one.write([put('x')]);
  await two.close();
  await until('its silence', () => one.status.isAlone);
  await t.throwsAsync(one.write([put('y')]), refused('ERR_CLUSTER_ALONE'));
});

test('an append with an unknown outcome is repeated, and takes effect once', async (t) => {
  const { cluster, a } = await start(t, 'a');
  const faults: ('lost' | 'unknown')[] = ['unknown', 'lost', 'unknown'];
  cluster.log.fault = () => faults.pop();
  const { last } = cluster.log;
  await a.write([{ op: 'append', stream: 's', value: Buffer.from('1') }]);
  t.is((await a.stream('s').read()).length, 1);
  await until('the last attempt', () => faults.length === 0);
  cluster.log.fault = () => undefined;
  await a.barrier();
  t.is(cluster.log.last, last + 2);
  t.is((await a.stream('s').read()).length, 1);
});

test('a duplicate entry in the log takes effect once', async (t) => {
  const { cluster, a } = await start(t, 'a');
  await a.write([{ op: 'append', stream: 's', value: Buffer.from('1') }]);
  const again = cluster.log.at(cluster.log.last);
  cluster.log.append('again', again?.bytes ?? Buffer.alloc(0));
  await a.barrier();
  t.is((await a.stream('s').read()).length, 1);
  t.is(a.status.repeatedEntries, 1);
});

test('a client of the log cannot make the log ignore an entry of a member', async (t) => {
  const { cluster, a, b } = await start(t, 'ab');
  await a.write([put('before')]);
  // Each encrypted entry begins with its version, the session of its member and a counter.
  const [head] = cluster.log.entries.slice(-1);
  const session = Buffer.from(head ?? []).toString('hex', 1, 17);
  for (let counter = 1; counter < 100; counter += 1) {
    cluster.log.append(`${session}-${counter}`, Buffer.alloc(8));
  }
  await until('the foreign entries', () => a.status.foreignEntries === 99);
  await a.write([put('after')]);
  await b.barrier();
  t.truthy(await b.get(['k', 'after']));
});

test('an earlier opening and its repeated writes have no effect', async (t) => {
  const { cluster, a } = await start(t, 'a');
  await a.write([{ op: 'append', stream: 's', value: Buffer.from('1') }]);
  const old = [...cluster.log.entries];
  await a.close();
  const again = await cluster.open('a');
  for (const [index, bytes] of old.entries()) cluster.log.append(`again ${index}`, bytes);
  await again.barrier();
  t.is((await again.stream('s').read()).length, 1);
  t.is(await again.write([put('x')]), 2);
});

test('the log reveals nothing of a write, and only members with the secret add to it', async (t) => {
  const { cluster, a } = await start(t, 'a');
  await a.write([put('name', 'a value that is secret')]);
  const all = Buffer.concat(cluster.log.entries).toString('latin1');
  t.false(all.includes('secret') || all.includes('name'));
  const own = Buffer.from(cluster.log.at(cluster.log.last)?.bytes ?? []);
  own.writeUInt8(own.readUInt8(40) ^ 1, 40);
  cluster.log.append('forged', own);
  cluster.log.append('noise', Buffer.alloc(90, 1));
  await a.barrier();
  t.is(a.status.foreignEntries, 2);
  const { last } = cluster.log;
  t.is((await contentOf(a)).length, 1);
  await a.close();
  const other = { secret: Buffer.alloc(32, 8) };
  await t.throwsAsync(cluster.open('b', other), refused('ERR_CLUSTER_SECRET'));
  await t.throwsAsync(cluster.open('b', { cluster: 'other' }), refused('ERR_CLUSTER_SECRET'));
  // Entries of another cluster's member are ignored, even if it has the same secret and name.
  const another = new TestCluster(t);
  await another.found();
  await (await another.open('b')).close();
  const directory = another.directoryOf('b');
  await t.throwsAsync(cluster.open('b', { directory }), refused('ERR_STORE_DIVERGED'));
  t.is(cluster.log.last, last);
  // Entries of a later version are left to members of that version.
  const again = await cluster.open('a');
  cluster.log.append('later', Buffer.alloc(90, 2));
  await t.throwsAsync(again.barrier(), refused('ERR_STORE_VERSION'));
  await t.throwsAsync(again.get(['k', 'name']), refused('ERR_STORE_VERSION'));
});

test('a write too large for an entry is refused before any write', async (t) => {
  const { cluster, a } = await start(t, 'a');
  cluster.log.maxEntryBytes = 5000;
  const { last } = cluster.log;
  await t.throwsAsync(a.write([put('x', 'x'.repeat(5000))]), refused('ERR_STORE_TOO_LARGE'));
  t.is(cluster.log.last, last);
  await Promise.all(
    Array.from({ length: 40 }, (_, i) => a.write([put(String(i), 'x'.repeat(1000))])),
  );
  t.true(cluster.log.entries.every(({ length }) => length <= 5000));
});

test('many simultaneous writes share entries', async (t) => {
  const { cluster, a } = await start(t, 'a');
  const { last } = cluster.log;
  await Promise.all(Array.from({ length: 300 }, (_, i) => a.write([put(String(i))])));
  t.true(cluster.log.last - last < 40);
  t.is((await contentOf(a)).length, 300);
});

test('a log that accepts nothing is reported, and the outcome of an unconfirmed write is open', async (t) => {
  const { cluster, a } = await start(t, 'a', soon);
  cluster.log.fault = () => 'lost';
  await t.throwsAsync(a.write([put('x')]), refused('ERR_CLUSTER_OUTCOME'));
  t.true(a.status.failingMs >= soon.writeTimeoutMs);
  await t.throwsAsync(a.write([put('y')]), refused('ERR_STORE_UNAVAILABLE'));
});

test('a process that opens the log under the name of another replaces it', async (t) => {
  const { cluster, a } = await start(t, 'a');
  const told: string[] = [];
  await a.close();
  const first = await cluster.open('a', { onFenced: ({ code }) => told.push(code) });
  const second = await cluster.open('a', { directory: cluster.directoryOf('elsewhere') });
  await until('the end of the first', () => told.length > 0);
  await t.throwsAsync(first.write([put('x')]), refused('ERR_STORE_FENCED'));
  await second.write([put('y')]);
  t.deepEqual(told, ['ERR_STORE_FENCED']);
});

test('messages from a replaced member have no effect', async (t) => {
  const { cluster, a } = await start(t, 'a');
  cluster.log.fault = () => 'lost';
  const held: Uint8Array[] = [];
  const append = cluster.log.append.bind(cluster.log);
  cluster.log.append = (id, bytes) => {
    held.push(bytes);
    return append(id, bytes);
  };
  cluster.log.fault = () => undefined;
  await a.write([{ op: 'append', stream: 's', value: Buffer.from('1') }]);
  await a.close();
  // The entry arrives late, as if it had been delayed in the network.
  cluster.log.truncate(cluster.log.last - 1);
  const other = await cluster.open('a', { directory: cluster.directoryOf('elsewhere') });
  append('late', held[0] ?? Buffer.alloc(0));
  await other.barrier();
  t.deepEqual(await other.stream('s').read(), []);
});

test('a store that is ahead of a truncated log stops, at the start and later', async (t) => {
  const { cluster, a } = await start(t, 'a');
  for (const name of ['x', 'y', 'z']) await a.write([put(name)]);
  const told: string[] = [];
  await a.close();
  const again = await cluster.open('a', { onDiverged: ({ code }) => told.push(code) });
  cluster.log.truncate(cluster.log.last - 2);
  await t.throwsAsync(again.write([put('lost')]), refused('ERR_STORE_DIVERGED'));
  t.deepEqual(told, ['ERR_STORE_DIVERGED']);
  await t.throwsAsync(again.get(['k', 'x']), refused('ERR_STORE_DIVERGED'));
  await again.close();
  const error = await t.throwsAsync(cluster.open('a'), refused('ERR_STORE_DIVERGED'));
  t.regex(error?.message ?? '', /ahead of the log|differs from the one/);
});

test('removed or replaced entries stop the store', async (t) => {
  const { cluster, a } = await start(t, 'a');
  const at = cluster.log.at.bind(cluster.log);
  const missing = cluster.log.last + 1;
  cluster.log.at = (position) => at(position < missing ? position : position + 1);
  await t.throwsAsync(Promise.all([a.barrier(), a.barrier()]), refused('ERR_STORE_DIVERGED'));
  cluster.log.at = at;
  await a.close();
  const again = await cluster.open('a');
  await again.close();
  cluster.log.entries[cluster.log.last - 1] = Buffer.alloc(100, 1);
  await t.throwsAsync(cluster.open('a'), refused('ERR_STORE_DIVERGED'));
});

test('a replaced entry is noticed while the store is open', async (t) => {
  const { cluster, a } = await start(t, 'a');
  await a.close();
  const told: string[] = [];
  const options = { checkIntervalMs: 10, onDiverged: (it: StoreError) => told.push(it.code) };
  await cluster.open('a', options);
  cluster.log.entries[cluster.log.last - 1] = Buffer.alloc(100, 1);
  await until('the check', () => told.length > 0);
  t.deepEqual(told, ['ERR_STORE_DIVERGED']);
});

test('neither of two members with different content continues', async (t) => {
  const { cluster, a, b } = await start(t, 'ab', soon);
  await b.close();
  await spoilStore(cluster.directoryOf('b'));
  const told: string[] = [];
  await cluster.open('b', { ...soon, onDiverged: () => told.push('b') });
  await until('a to hear of b', () => a.status.members.every(({ isAlive }) => isAlive));
  const written = a.write([put('x')]);
  await Promise.allSettled([written]);
  await until('the other', () => told.length > 0);
  await t.throwsAsync(a.write([put('y')]), refused('ERR_STORE_DIVERGED'));
});

test('a member that differs from the majority stops, and the others continue', async (t) => {
  const { cluster, a, b, c } = await start(t, 'abc');
  await c.close();
  await spoilStore(cluster.directoryOf('c'));
  const told: string[] = [];
  await cluster.open('c', { ...soon, onDiverged: () => told.push('c') });
  await a.write([put('x')]);
  await until('the third', () => told.length > 0);
  await a.write([put('y')]);
  await b.write([put('z')]);
  t.deepEqual(told, ['c']);
});

test('a backup creates a new member, and the log drops entries that two backups contain', async (t) => {
  const { cluster, a, b } = await start(t, 'ab');
  const backup = path.join(cluster.directory, 'backup');
  for (const name of ['x', 'y', 'z']) {
    await a.write([put(name)]);
    await a.backup(`${backup}-${name}`);
  }
  const { first, last } = cluster.log;
  t.true(first > 5);
  // The backup for a new member does not count as a backup.
  await a.handOver(`${backup}-joining`);
  t.deepEqual([cluster.log.first, cluster.log.last], [first, last]);
  await t.throwsAsync(cluster.open('c'), refused('ERR_CLUSTER_BEHIND'));
  await restoreStore({ file: `${backup}-y`, directory: cluster.directoryOf('c') });
  const c = await cluster.open('c');
  t.deepEqual(await contentOf(c), await contentOf(a));
  await c.write([put('c')]);
  await b.barrier();
  t.truthy(await b.get(['k', 'c']));
});

test('the log retains entries that a living member has not applied', async (t) => {
  const { cluster, a } = await start(t, 'a', { acknowledge: 'local' });
  let isHeld = false;
  const connection = cluster.log.connect();
  const { read } = connection;
  connection.read = async function* (from, signal) {
    for await (const entry of read.call(connection, from, signal)) {
      await until('its release', () => !isHeld);
      yield entry;
    }
  };
  const b = await cluster.open('b', { log: connection });
  await a.barrier();
  isHeld = true;
  for (const name of ['1', '2', '3']) await a.backup(path.join(cluster.directory, name));
  t.true(cluster.log.first <= b.status.position);
  isHeld = false;
  await b.barrier();
});

test('a store with content creates a log that others join by a backup', async (t) => {
  const cluster = new TestCluster(t);
  const directory = cluster.directoryOf('a');
  const before = await openEmbeddedStore({ directory });
  await before.write([put('old')]);
  await before.close();
  await t.throwsAsync(cluster.open('b'), refused('ERR_CLUSTER_LOG'));
  await foundLog({ ...cluster.given, directory });
  await t.throwsAsync(foundLog(cluster.given), refused('ERR_CLUSTER_FOUNDED'));
  await t.throwsAsync(cluster.open('b'), refused('ERR_CLUSTER_BEHIND'));
  const a = await cluster.open('a');
  t.truthy(await a.get(['k', 'old']));
  const file = path.join(cluster.directory, 'backup');
  await a.backup(file);
  await restoreStore({ file, directory: cluster.directoryOf('b') });
  const b = await cluster.open('b');
  t.is(await b.write([put('new')]), 2);
});

test('a log is created again from the most advanced store, and one that is behind does not follow', async (t) => {
  const { cluster, a, b, c } = await start(t, 'abc');
  await a.write([put('x')]);
  await c.close();
  await a.write([put('y')]);
  await a.close();
  await b.barrier();
  await b.close();
  cluster.log.truncate(cluster.log.last - 3);
  await t.throwsAsync(cluster.open('b'), refused('ERR_STORE_DIVERGED'));
  const directory = cluster.directoryOf('b');
  await foundLog({ ...cluster.given, directory, replace: true });
  const again = await cluster.open('b', { acknowledge: 'local' });
  t.truthy(await again.get(['k', 'y']));
  await again.write([put('z')]);
  for (const member of ['a', 'c']) {
    const error = await t.throwsAsync(cluster.open(member), { instanceOf: StoreError });
    t.true(['ERR_CLUSTER_BEHIND', 'ERR_STORE_DIVERGED'].includes(error?.code ?? ''), error?.code);
  }
});

test('a backup is advanced to a position or a time with later entries of the log', async (t) => {
  let now = Date.now() + 60_000;
  const clock = { now: () => now, acknowledge: 'local' as const };
  const { cluster, a } = await start(t, 'a', clock);
  await a.write([put('1')]);
  const backup = path.join(cluster.directory, 'backup');
  const { position: known } = await a.backup(backup);
  const { position: saved } = a.status;
  // The next entry records that there is a backup.
  t.is(known, saved - 1);
  for (const name of ['2', '3', '4']) {
    now += 1000;
    await a.write([put(name)]);
    cluster.log.append(`foreign-${name}`, Buffer.alloc(64, 1));
  }
  await a.close();
  const { last } = cluster.log;
  const replay = async (name: string, until: ReplayPoint, given = cluster.given) => {
    const directory = cluster.directoryOf(name);
    await restoreStore({ file: backup, directory });
    const receipt = await replayLog({ ...given, directory, until });
    await detachFromLog(directory);
    const store = await openEmbeddedStore({ directory });
    const entries = await contentOf(store);
    await store.close();
    return { ...receipt, names: entries.map((it) => it.slice(2, 3)).join('') };
  };
  t.like(await replay('all', {}), { names: '1234', to: last, last, time: now });
  t.like(await replay('time', { time: now - 1 }), { names: '123', time: now - 1000 });
  t.like(await replay('first', { time: now - 3000 }), { names: '1', time: now - 3000 });
  t.like(await replay('position', { position: saved + 1 }), { names: '12', to: saved + 1 });
  const early = refused('ERR_STORE_BACKUP');
  await t.throwsAsync(replay('early', { time: now - 3001 }), early);
  await t.throwsAsync(replay('before', { position: 1 }), early);
  await t.throwsAsync(replay('beyond', { position: last + 1 }), early);
  const secret = Buffer.alloc(32, 8);
  await t.throwsAsync(
    replay('secret', {}, { ...cluster.given, secret }),
    refused('ERR_CLUSTER_SECRET'),
  );
  const empty = new TestCluster(t).given;
  t.like(await replay('lost', {}, empty), { names: '1', last: 0 });
  cluster.log.trim(saved + 2);
  await t.throwsAsync(replay('trimmed', {}), refused('ERR_CLUSTER_BEHIND'));
});
