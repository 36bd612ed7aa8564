/** Limit of the disk space of the stored returns of each owner. */

import test, { type ExecutionContext } from 'ava';
import type { LogStore } from '#cluster/log/log-store.ts';
import type { AuditRequester, JobReturn } from '#master';
import type { Job } from '#master/jobs/job.ts';
import { JobCache } from '#master/jobs/job-cache.ts';
import type { JobRecord } from '#master/jobs/job-row.ts';
import { ReturnBytes, type ReturnBytesOptions } from '#master/jobs/return-bytes.ts';
import { createMemoryStore, diskSpaceOf, openEmbeddedStore, type Store } from '#store';
import { until } from '../../helpers/deadline.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { TestCluster } from '../../store-suite/cluster.ts';

const hour = 3_600_000;
const maxBytes = 1_000_000;

interface Setting {
  readonly store?: Store;
  readonly clock?: { now: number };
  readonly cluster?: ReturnBytesOptions['cluster'];
  readonly max?: ReturnBytesOptions['maxBytes'];
}

interface Opened {
  readonly store: Store;
  readonly cache: JobCache;
  readonly bytes: ReturnBytes;
  readonly warnings: unknown[];
  /** Stores a job of an owner. */
  readonly add: (owner: string | undefined, jid: number) => Promise<Job>;
  /**
   * Stores a result of a runner of this size, which an owner has called, and returns the stored
   * value. A minion would have only a part of the owner's share.
   */
  readonly run: (owner: string | undefined, jid: number, size: number) => Promise<unknown>;
  /** Stores a minion's return of this size for a job, and returns the stored value. */
  readonly answer: (job: Job, minion: string, size: number) => Promise<unknown>;
}

async function open({
  store = createMemoryStore(),
  clock,
  cluster,
  max,
}: Setting = {}): Promise<Opened> {
  const now = (): number => clock?.now ?? Date.now();
  const warnings: unknown[] = [];
  const bytes = await ReturnBytes.open({
    store,
    now,
    maxBytes: max ?? (async () => maxBytes),
    cluster,
    log: { warn: (...line: unknown[]) => warnings.push(line) },
  });
  const lives = { keepMs: 8 * hour, keepMarksMs: hour };
  const isShared = cluster !== undefined;
  const cache = new JobCache({ store, isOn: true, isShared, ...lives, now, returnBytes: bytes });
  const add: Opened['add'] = async (limitOwner, jid) =>
    (await cache.add({ ...recordOf(jid), ...(limitOwner === undefined ? {} : { limitOwner }) }))
      .job;
  const run: Opened['run'] = async (owner, jid, size) => {
    await cache.addReturn(`${jid}`, returnOf('master', size), requesterOf(owner));
    return (await cache.storedReturn(`${jid}`, { minion: 'master' }))?.return;
  };
  const answer: Opened['answer'] = async (job, minion, size) => {
    await cache.addMinionReturn(job, returnOf(minion, size));
    return (await cache.storedReturn(job.jid, { minion }))?.return;
  };
  return { store, cache, bytes, warnings, add, run, answer };
}

/** Returns the requester whose name in limits is `owner`. */
function requesterOf(owner: string | undefined): AuditRequester | undefined {
  if (owner === undefined) return undefined;
  const kind = owner.startsWith('minion ') ? 'minion' : 'user';
  return { who: { kind, name: owner.slice(kind.length + 1) }, rule: 'r' };
}

function recordOf(jid: number): JobRecord {
  return {
    jid: `${jid}`,
    fun: 'test.echo',
    arg: [],
    tgt: '*',
    tgtType: 'glob',
    user: 'someone',
    minions: ['m1'],
    missing: [],
    publishedAt: 1,
    selfMade: false,
  };
}

function returnOf(minion: string, size: number): JobReturn {
  const value = 'x'.repeat(size);
  return { minion, fun: 'test.echo', return: value, retcode: 0, success: true, receivedAt: 1 };
}

const whole = (size: number): string => 'x'.repeat(size);
const notice = /^This return was not stored: .*stored_return_bytes/;
const alice = 'user pam/alice';
const mallory = 'user pam/mallory';

/** Returns a copy of a store whose methods a test can replace. */
function storeMethods(store: Store): Store {
  return {
    get: (key) => store.get(key),
    list: (prefix, options) => store.list(prefix, options),
    keys: (prefix) => store.keys(prefix),
    write: (operations) => store.write(operations),
    watch: (prefix, signal) => store.watch(prefix, signal),
    stream: (name) => store.stream(name),
    close: () => store.close(),
  };
}

/** Stores returns of 100,000 bytes until the owner has no space left. Returns their number. */
async function fill(
  t: ExecutionContext,
  { run }: Opened,
  owner: string | undefined,
  jid: number,
): Promise<number> {
  for (let count = 0; count < 20; count += 1) {
    const value = await run(owner, jid + count, 100_000);
    if (value === whole(100_000)) continue;
    t.regex(String(value), notice);
    return count;
  }
  throw new Error('the returns of the owner are not limited');
}

test('a user may use as much space as is free, and leaves space to others', async (t) => {
  const opened = await open();
  t.is(await fill(t, opened, mallory, 100), 5);
  t.is(await opened.run(alice, 200, 100_000), whole(100_000));
  t.is(await opened.run(undefined, 201, 100_000), whole(100_000));
  t.regex(String(await opened.run(mallory, 300, 100_000)), notice);
  t.is(opened.bytes.notStored, 2);
  t.is(opened.warnings.length, 1);
  t.regex(JSON.stringify(opened.warnings), /user pam\/mallory.*stored_return_bytes/);
});

test('a user without space for returns may start no further jobs', async (t) => {
  const opened = await open();
  const { cache } = opened;
  const by = (name: string) => ({ who: { kind: 'user', name, eauth: 'pam' }, rule: 'r' }) as const;
  cache.requirePlace(by('mallory'));
  await fill(t, opened, mallory, 100);
  // The share has space for small returns until it is used up.
  for (let jid = 200; jid < 400; jid += 1) await opened.run(mallory, jid, 300);
  t.throws(() => cache.requirePlace(by('mallory')), { code: 'ERR_LIMIT' });
  cache.requirePlace(by('alice'));
  await fill(t, opened, undefined, 500);
  for (let jid = 600; jid < 800; jid += 1) await opened.run(undefined, jid, 300);
  cache.requirePlace(undefined);
});

test('returns of the operator and of all services count for one owner', async (t) => {
  const opened = await open();
  t.is(await fill(t, opened, undefined, 100), 5);
  t.is(await opened.run(alice, 200, 100_000), whole(100_000));
});

test('a stored notice has the other fields of the return, and small returns are stored', async (t) => {
  const opened = await open();
  await fill(t, opened, mallory, 100);
  const job = await opened.add(mallory, 200);
  const failed = { ...returnOf('m1', 1000), retcode: 3, success: false, out: 'highstate' };
  t.true(await opened.cache.addMinionReturn(job, failed));
  const kept = await opened.cache.storedReturn('200', { minion: 'm1' });
  t.like(kept, { ...failed, return: kept?.return, out: 'nested', notStored: true });
  t.regex(String(kept?.return), notice);
  t.is(await opened.run(mallory, 201, 300), whole(300));
});

test('other large fields of a return are not stored either', async (t) => {
  const opened = await open();
  await fill(t, opened, mallory, 100);
  const long = whole(10_000);
  const many = Array.from({ length: 1000 }, () => 'a.b');
  for (const [jid, fields] of [
    [200, { fun: long }],
    [201, { fun: many }],
    [202, { out: long }],
    [203, { retcode: { [long]: 1 } }],
    [204, { success: long }],
  ] as const) {
    const job = await opened.add(mallory, jid);
    await opened.cache.addMinionReturn(job, { ...returnOf('m1', 10), ...fields });
    const row = await opened.store.get(['returns', `${jid}`, 'm1']);
    t.true((row?.value.length ?? Infinity) < 1000, JSON.stringify(fields).slice(0, 20));
  }
  t.like(await opened.cache.storedReturn('203', { minion: 'm1' }), { retcode: 1, success: true });
});

test('jobs that a minion starts itself count for the minion, with their arguments', async (t) => {
  const { cache, bytes, run } = await open();
  const record = { ...recordOf(1), selfMade: true, arg: [whole(1_100_000)] };
  const storeOwn = async (jid: number, given: Partial<JobRecord>, size: number) => {
    await cache.addSelfMade(
      { ...record, ...given, jid: `${jid}` },
      returnOf('m1', size),
      undefined,
    );
    return cache.record(`${jid}`);
  };
  t.is((await storeOwn(1, {}, 10))?.arg.length, 0);
  t.is(bytes.notStored, 1);
  const long = { arg: [], fun: whole(600_000), user: whole(600_000) };
  t.like(await storeOwn(2, long, 10), { fun: 'VALUE_TRIMMED', user: 'm1' });
  t.is(bytes.notStored, 2);
  t.is((await storeOwn(3, { arg: [whole(400_000)] }, 10))?.arg.length, 1);
  t.regex(String(await run('minion m1', 4, 200_000)), notice);
  t.is(await run('minion m2', 5, 80_000), whole(80_000));
});

test('all minions together leave space to users and the operator', async (t) => {
  const opened = await open();
  const { cache, bytes, run } = opened;
  const storeOwn = async (minion: string, jid: number): Promise<void> => {
    const record = { ...recordOf(jid), selfMade: true, minions: [minion] };
    await cache.addSelfMade(record, returnOf(minion, 50_000), undefined);
  };
  for (let jid = 0; jid < 10; jid += 1) await storeOwn(`m${jid}`, jid);
  // These ids are too long to be names of counts.
  for (let jid = 10; jid < 20; jid += 1) await storeOwn(`${'m'.repeat(200)}${jid}`, jid);
  t.true(bytes.notStored >= 10);
  t.true(bytes.total <= maxBytes * 0.55);
  t.is(await run(alice, 100, 200_000), whole(200_000));
  t.is(await run(undefined, 101, 100_000), whole(100_000));
  // Also after a restart.
  const after = await open({ store: opened.store });
  t.regex(String(await after.run('minion m99', 102, 50_000)), notice);
});

test('returns of resources that a job did not ask for count for the minion', async (t) => {
  const { cache, add, run } = await open();
  const job = await add(mallory, 100);
  job.expectResources(new Map([['m2', new Set(['asked'])]]));
  const store = async (minion: string, resource: string, size = 150_000) => {
    await cache.addMinionReturn(job, { ...returnOf(minion, size), resource });
    return (await cache.storedReturn('100', { minion, resource }))?.return;
  };
  for (let index = 0; index < 3; index += 1)
    t.is(await store('m1', `r${index}`), whole(150_000), `${index}`);
  t.regex(String(await store('m1', 'r4')), notice);
  t.is(await store('m2', 'asked', 60_000), whole(60_000));
  t.is(await run(mallory, 101, 150_000), whole(150_000));
  t.regex(String(await run(mallory, 102, 200_000)), notice);
});

/** Maximum in the tests of minions with large returns. One minion may use about a tenth of it. */
const large = { max: async () => 10_000_000 };

/**
 * Stores returns of 300,000 bytes of a minion, each for another job of an owner, until the minion
 * has no space left. Returns their number.
 */
async function fillOf(
  t: ExecutionContext,
  { add, answer }: Opened,
  owner: string | undefined,
  jid: number,
): Promise<number> {
  for (let count = 0; count < 20; count += 1) {
    const value = await answer(await add(owner, jid + count), 'rogue', 300_000);
    if (value === whole(300_000)) continue;
    t.regex(String(value), notice);
    return count;
  }
  throw new Error('the returns of the minion are not limited');
}

test('a minion with large returns leaves space to the returns of other minions', async (t) => {
  const opened = await open(large);
  const { cache, bytes, warnings, add, answer, run } = opened;
  const first = await add(undefined, 1);
  t.is(await answer(first, 'rogue', 300_000), whole(300_000));
  for (let count = 0; count < 20; count += 1)
    t.false(await cache.addMinionReturn(first, returnOf('rogue', 300_000)));
  t.is(await fillOf(t, opened, undefined, 100), 2);
  t.is(bytes.notStored, 1);
  t.like(warnings.flat()[0], {
    owner: 'operator',
    minion: 'rogue',
    limit: 'jobs.storedReturnBytesOfMinion',
  });
  for (let jid = 200; jid < 240; jid += 1) {
    const job = await add(undefined, jid);
    t.regex(String(await answer(job, 'rogue', 300_000)), notice);
    t.is(await answer(job, 'web1', 10_000), whole(10_000));
    t.is(await answer(job, `web${jid}`, 70_000), whole(70_000));
  }
  t.is(await run(undefined, 300, 300_000), whole(300_000));
  // Ordinary returns of this minion, and its returns to other users, are stored.
  t.is(await answer(await add(undefined, 301), 'rogue', 60_000), whole(60_000));
  t.is(await answer(await add(alice, 302), 'rogue', 300_000), whole(300_000));
});

test('large returns of a minion count after a restart, until they expire', async (t) => {
  const clock = { now: 1_000_000_000_000 };
  const store = createMemoryStore({ now: () => clock.now });
  const first = await open({ ...large, store, clock });
  t.is(await fillOf(t, first, mallory, 100), 3);
  const second = await open({ ...large, store, clock });
  t.true(second.bytes.total < first.bytes.total * 1.2);
  t.is(await fillOf(t, second, mallory, 200), 0);
  clock.now += 9 * hour;
  t.is(await fillOf(t, second, mallory, 300), 3);
  clock.now += 9 * hour;
  t.is(second.bytes.total, 0);
});

test('highstate returns of 5 MB from 15,000 minions are stored', async (t) => {
  const { bytes } = await open({ max: async () => 200e9 });
  const value = Buffer.alloc(5_000_000);
  const rows = [{ op: 'put', key: ['returns', '1', 'm'], value }] as const;
  const reduced = (): never => t.fail('a return was not stored');
  for (let index = 0; index < 15_000; index += 1) {
    const counted = { owner: undefined, minion: `m${index}`, rows, reduced, keepMs: 8 * hour };
    await bytes.store(counted, async () => true);
  }
  t.true(bytes.total > 75e9);
});

test('results of runners count for the user who called the runner', async (t) => {
  const { cache, run } = await open();
  const by = { who: { kind: 'user', name: 'mallory', eauth: 'pam' }, rule: 'r' } as const;
  await cache.addReturn('1', returnOf('master', 450_000), by);
  t.regex(String(await run(mallory, 100, 100_000)), notice);
  t.is(await run(alice, 200, 100_000), whole(100_000));
});

test('stored returns count after a restart, and few returns write the count', async (t) => {
  const store = createMemoryStore();
  const first = await open({ store });
  const job = await first.add(mallory, 100);
  const sizes = 400;
  for (let index = 0; index < sizes; index += 1)
    await first.cache.addMinionReturn(job, returnOf(`m${index}`, 100));
  const entries: { key: readonly string[]; revision: number }[] = [];
  for await (const entry of store.list(['return-bytes'])) entries.push(entry);
  t.is(entries.length, 1);
  const second = await open({ store });
  t.true(second.bytes.total >= first.bytes.total);
  t.true(second.bytes.total < first.bytes.total * 1.2);
  t.is(await fill(t, second, mallory, 200), 2);
});

test('the count in the store is never too low while returns arrive at the same time', async (t) => {
  const directory = temporaryDirectory(t);
  const store = await openEmbeddedStore({ directory });
  t.teardown(() => store.close());
  let writes = 0;
  const counting: Store = {
    ...storeMethods(store),
    write: (operations) => {
      if (operations.some((it) => 'key' in it && it.key[0] === 'return-bytes')) writes += 1;
      return store.write(operations);
    },
  };
  const { cache, bytes, add } = await open({ store: counting });
  const job = await add(mallory, 100);
  const returns = Array.from({ length: 500 }, (_, index) =>
    cache.addMinionReturn(job, returnOf(`m${index}`, 100)),
  );
  await Promise.all(returns);
  t.true(writes < 60, `${writes} writes`);
  const after = await open({ store });
  t.true(after.bytes.total >= bytes.total);
});

test('repeated returns and failed writes do not count', async (t) => {
  const store = createMemoryStore();
  let isBroken = false;
  const breakable: Store = {
    ...storeMethods(store),
    write: async (operations) => {
      if (isBroken) throw new Error('disk is full');
      return store.write(operations);
    },
  };
  const opened = await open({ store: breakable });
  const { cache, bytes } = opened;
  const job = await opened.add(mallory, 100);
  t.true(await cache.addMinionReturn(job, returnOf('m1', 100_000)));
  const once = bytes.total;
  for (let index = 0; index < 5; index += 1)
    t.false(await cache.addMinionReturn(job, returnOf('m1', 100_000)));
  t.is(bytes.total, once);
  isBroken = true;
  await t.throwsAsync(cache.addMinionReturn(job, returnOf('m2', 90_000)));
  t.is(bytes.total, once);
  isBroken = false;
  // The count whose write failed is written again.
  t.true(await cache.addMinionReturn(job, returnOf('m2', 90_000)));
  const after = await open({ store });
  t.true(after.bytes.total >= bytes.total);
  t.is(bytes.notStored, 0);
});

test('expired returns do not count, also after a change of keep_jobs_seconds', async (t) => {
  const clock = { now: 1_000_000_000_000 };
  const opened = await open({ store: createMemoryStore({ now: () => clock.now }), clock });
  t.is(await opened.run(mallory, 100, 300_000), whole(300_000));
  opened.cache.keepFor(hour);
  clock.now += 1000;
  t.is(await opened.run(mallory, 101, 100_000), whole(100_000));
  const both = opened.bytes.total;
  clock.now += hour + hour / 8;
  t.true(opened.bytes.total < both);
  t.true(opened.bytes.total > 300_000);
  clock.now += 6 * hour;
  t.true(opened.bytes.total > 300_000);
  clock.now += 2 * hour;
  t.is(opened.bytes.total, 0);
  t.is(await fill(t, opened, mallory, 200), 5);
});

test('names of owners of any form are counted', async (t) => {
  const opened = await open();
  for (const [index, owner] of ['user pam/\ud800', `user pam/${'x'.repeat(900)}`].entries()) {
    t.is(await opened.run(owner, 10 * index, 400_000), whole(400_000));
    t.regex(String(await opened.run(owner, 10 * index + 1, 200_000)), notice);
  }
  const after = await open({ store: opened.store });
  t.true(after.bytes.total >= opened.bytes.total);
});

test('the disk space is measured again, and no return waits for it', async (t) => {
  const clock = { now: 1_000_000_000_000 };
  let measurements = 0;
  const pending = Promise.withResolvers<number>();
  const max = (): Promise<number | undefined> => {
    measurements += 1;
    return measurements === 1 ? Promise.resolve(undefined) : pending.promise;
  };
  const opened = await open({ store: createMemoryStore({ now: () => clock.now }), clock, max });
  t.is(await opened.run(mallory, 1, 400_000), whole(400_000));
  t.is(measurements, 1);
  clock.now += hour;
  t.is(await opened.run(mallory, 2, 400_000), whole(400_000));
  t.is(await opened.run(mallory, 3, 400_000), whole(400_000));
  t.is(measurements, 2);
  pending.resolve(maxBytes);
  await pending.promise;
  t.regex(String(await opened.run(mallory, 4, 400_000)), notice);
});

test('returns are limited if the size of the disk is unknown, and a warning says so', async (t) => {
  const { bytes, warnings } = await open({ max: async () => undefined });
  t.is(warnings.length, 1);
  t.regex(JSON.stringify(warnings), /cannot determine the size of the disk.*stored_return_bytes/);
  const rows = [{ op: 'put', key: ['x'], value: Buffer.alloc(50_000_000) }] as const;
  const counted = { owner: mallory, rows, reduced: () => [], keepMs: 8 * hour };
  for (let count = 0; count < 100; count += 1) await bytes.store(counted, async () => true);
  t.true(bytes.notStored > 50);
  t.true(bytes.total > 2e9);
});

test('the disk space of a store includes its size and the free space', async (t) => {
  const directory = temporaryDirectory(t);
  t.is(await diskSpaceOf(directory), undefined);
  const store = await openEmbeddedStore({ directory });
  t.true(((await diskSpaceOf(directory)) ?? 0) > 32_768);
  // Some file systems report no size.
  const read = async () => ({ bavail: 0, blocks: 0, bsize: 4096 });
  t.is(await diskSpaceOf(directory, read), undefined);
  await store.close();
});

/** Creates a cluster, and returns a function that opens the counts of one of its members. */
async function members(
  t: ExecutionContext,
  setting: Setting = {},
): Promise<(member: string) => Promise<Opened>> {
  const cluster = new TestCluster(t);
  await cluster.found();
  return async (member) => {
    const store: LogStore = await cluster.open(member);
    const end = new AbortController();
    t.teardown(() => end.abort());
    const follow: NonNullable<Setting['cluster']>['follow'] = (prefix, listener) =>
      store.onChange(prefix, listener, end.signal);
    return open({ ...setting, store, cluster: { member, follow } });
  };
}

test('the returns that other members of a cluster store count', async (t) => {
  const openOn = await members(t);
  const [a, b] = [await openOn('a'), await openOn('b')];
  t.is(await a.run(mallory, 100, 400_000), whole(400_000));
  await until('b to count the return', () => b.bytes.total > 300_000);
  t.regex(String(await b.run(mallory, 200, 300_000)), notice);
  t.is(await b.run(alice, 201, 300_000), whole(300_000));
  await until('a to count the return', () => a.bytes.total > 600_000);
  const c = await openOn('c');
  await until('c to count the returns', () => c.bytes.total > 600_000);
  t.regex(String(await c.run(mallory, 300, 200_000)), notice);
});

test('the large returns that other members of a cluster store count for their minion', async (t) => {
  const openOn = await members(t, large);
  const [a, b] = [await openOn('a'), await openOn('b')];
  t.is(await fillOf(t, a, undefined, 100), 3);
  // The master writes the count of the minion before the count of the owner.
  await until('b to count the returns', () => b.bytes.total >= a.bytes.total);
  t.regex(String(await b.answer(await b.add(undefined, 200), 'rogue', 300_000)), notice);
  t.is(await b.answer(await b.add(undefined, 201), 'web1', 300_000), whole(300_000));
});
