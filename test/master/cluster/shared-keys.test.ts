/** Keys that members of a cluster share, when two members change them at once. */
import { chmodSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import type { LogStore } from '#cluster/log/log-store.ts';
import { openClusterLog, readSecret } from '#cluster/open-cluster.ts';
import { sharedKeyFiles } from '#cluster/shared-keys.ts';
import type { Cluster, JobReturn } from '#master';
import { createSeal, sessionKey } from '#master';
import { PublishKey } from '#master/auth/publish-key.ts';
import { SessionKeys } from '#master/auth/session-keys.ts';
import { JobCache } from '#master/jobs/job-cache.ts';
import type { JobRecord } from '#master/jobs/job-row.ts';
import { until } from '../../helpers/deadline.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { pem } from '../../helpers/vectors.ts';
import { TestCluster } from '../../store-suite/cluster.ts';

const seal = createSeal(new Uint8Array(32));
const now = Date.now;

async function open(t: ExecutionContext, ...names: string[]): Promise<LogStore[]> {
  const cluster = new TestCluster(t);
  await cluster.found();
  const stores: LogStore[] = [];
  for (const name of names) stores.push(await cluster.open(name));
  return stores;
}

function follower(t: ExecutionContext, store: LogStore): Pick<Cluster, 'follow'> {
  const end = new AbortController();
  t.teardown(() => end.abort());
  return { follow: (prefix, listener) => store.onChange(prefix, listener, end.signal) };
}

test('a minion that signs in at two members at once has one session', async (t) => {
  const stores = await open(t, 'a', 'b');
  const opened = await Promise.all(
    stores.map((store) =>
      SessionKeys.open(
        { store, seal, lifetimeMs: 0, now, cluster: follower(t, store) },
        () => true,
      ),
    ),
  );
  const keys = await Promise.all(opened.map((sessions) => sessions.obtain('web1')));
  t.is(keys[0]?.text, keys[1]?.text);
  await until('both to know it', () =>
    opened.every((sessions) => sessions.get('web1')?.text === keys[0]?.text),
  );
});

test('a publish key replaced by one member is not restored by another', async (t) => {
  const stores = await open(t, 'a', 'b');
  const publishKeys: PublishKey[] = [];
  for (const store of stores) {
    const cluster = follower(t, store);
    const sign = async () => new Uint8Array(8);
    publishKeys.push(await PublishKey.open({ store, seal, sign, serialBlock: 1, now, cluster }));
  }
  const [a, b] = publishKeys;
  if (a === undefined || b === undefined) return t.fail();
  const former = new Set<string>();
  for (let round = 0; round < 20; round += 1) {
    former.add(a.current.key.text);
    await Promise.all([a.rotate(), b.take(), b.take(), b.take()]);
    await stores[0]?.barrier();
    await stores[1]?.barrier();
    t.is(a.current.key.text, b.current.key.text);
    t.false(former.has(a.current.key.text), `round ${round}`);
  }
});

test('serials of a member are above those that it has received', async (t) => {
  const [store] = await open(t, 'a');
  if (store === undefined) return t.fail();
  const sign = async () => new Uint8Array(8);
  const cluster = follower(t, store);
  const key = await PublishKey.open({ store, seal, sign, serialBlock: 10, now, cluster });
  t.is((await key.take()).serial, 1);
  key.observe(500);
  t.is((await key.take()).serial, 501);
  const again = await PublishKey.open({ store, seal, sign, serialBlock: 10, now, cluster });
  t.true((await again.take()).serial > 501);
});

test('a session is removed in the same write as its accepted key', async (t) => {
  const [store] = await open(t, 'a');
  if (store === undefined) return t.fail();
  const cluster = { ...follower(t, store) } as Cluster;
  const { files } = sharedKeyFiles(store, cluster, now);
  const { publicPem } = pem('minion');
  await files.write('accepted', 'web1', publicPem);
  await store.write([{ op: 'put', key: sessionKey('web1'), value: Buffer.from('s') }]);
  const revision = new Promise<number>((resolve) => {
    cluster.follow(sessionKey('web1'), (change) => {
      if (change.type === 'delete') resolve(change.revision);
    });
  });
  await files.move('accepted', 'rejected', 'web1');
  t.is(await store.get(sessionKey('web1')), undefined);
  const { revision: written = 0 } = (await store.get(['keys', 'web1'])) ?? {};
  t.is(await revision, written);
});

test('two members decide about a key at once, and one of them is refused', async (t) => {
  const [a, b] = await open(t, 'a', 'b');
  if (a === undefined || b === undefined) return t.fail();
  const { publicPem } = pem('minion');
  const of = (store: LogStore) => sharedKeyFiles(store, follower(t, store) as Cluster, now).files;
  const [first, second] = [of(a), of(b)];
  await first.write('pending', 'web1', publicPem);
  await b.barrier();
  await second.read('pending', 'web1');
  const decided = await Promise.allSettled([
    first.move('pending', 'accepted', 'web1'),
    second.move('pending', 'rejected', 'web1'),
  ]);
  t.deepEqual(decided.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
});

const record: JobRecord = {
  jid: '20260301100000000001',
  fun: 'test.ping',
  arg: [],
  tgt: 'web1',
  tgtType: 'glob',
  user: 'root',
  minions: ['web1'],
  missing: [],
  publishedAt: 0,
  selfMade: false,
};

function jobCacheOf(store: LogStore): JobCache {
  const lives = { keepMs: 60_000, keepMarksMs: 60_000 };
  return new JobCache({ store, isOn: true, isShared: true, ...lives, now });
}

test('two members store jobs with the same jid at once, and one job is stored', async (t) => {
  const caches = (await open(t, 'a', 'b')).map(jobCacheOf);
  const kept = await Promise.allSettled(caches.map((cache) => cache.add(record)));
  t.deepEqual(kept.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
});

test('a return that two members accept at once is stored once, and known to both', async (t) => {
  const [a, b] = await open(t, 'a', 'b');
  if (a === undefined || b === undefined) return t.fail();
  const caches = [jobCacheOf(a), jobCacheOf(b)];
  await caches[0]?.add(record);
  const { jid } = record;
  while ((await caches[1]?.find(jid)) === undefined) await new Promise((r) => setImmediate(r));
  const result: JobReturn = {
    minion: 'web1',
    fun: 'test.ping',
    return: true,
    success: true,
    retcode: 0,
    receivedAt: 1,
  };
  const taken = await Promise.all(caches.map((cache) => cache.addReturn(jid, result)));
  t.deepEqual([...taken].sort(), [false, true]);
  const known = caches.map((cache) => cache.remembered(jid)?.hasAnswered('web1', undefined));
  // The member that stores the key reports it itself.
  t.deepEqual(
    known,
    taken.map((isFirst) => !isFirst),
  );
});

test('a repeated message is not processed again', async (t) => {
  const cluster = new TestCluster(t);
  await cluster.found();
  const [a, b] = [await cluster.open('a'), await cluster.open('b')];
  const heard = messagesOf(b);
  await untilHeard(a, heard, 'ready');
  const sent: Uint8Array[] = [];
  cluster.log.listen((bytes) => void sent.push(bytes), new AbortController().signal);
  a.send(Buffer.from('once'));
  await until('b to hear it', () => heard.includes('a once'));
  for (const bytes of sent.splice(0)) cluster.log.announce(bytes);
  await untilHeard(a, heard, 'later');
  t.is(heard.filter((it) => it === 'a once').length, 1);
});

test('a message from before the start of a member is not processed', async (t) => {
  const cluster = new TestCluster(t);
  await cluster.found();
  const [a, former] = [await cluster.open('a'), await cluster.open('b')];
  const sent: Uint8Array[] = [];
  cluster.log.listen((bytes) => void sent.push(bytes), new AbortController().signal);
  await untilHeard(a, messagesOf(former), 'once');
  await former.close();
  const b = await cluster.open('b');
  const heard = messagesOf(b);
  for (const bytes of sent.splice(0)) cluster.log.announce(bytes);
  await untilHeard(a, heard, 'later');
  t.deepEqual([...new Set(heard)], ['a later']);
});

function messagesOf(store: LogStore): readonly string[] {
  const heard: string[] = [];
  store.onMessage((body, from) => void heard.push(`${from} ${body}`));
  return heard;
}

/** Sends a message until another member hears it, because messages may be lost. */
async function untilHeard(a: LogStore, heard: readonly string[], text: string): Promise<void> {
  await until('the other member to hear a message', () => {
    a.send(Buffer.from(text));
    return heard.includes(`a ${text}`);
  });
}

test('a secret file readable by others is refused', async (t) => {
  const file = path.join(temporaryDirectory(t), 'secret');
  writeFileSync(file, Buffer.alloc(32).toString('base64'));
  chmodSync(file, 0o644);
  await t.throwsAsync(readSecret(file), { code: 'ERR_CLUSTER_SECRET', message: /chmod 600/ });
  chmodSync(file, 0o600);
  t.is((await readSecret(file)).length, 32);
  writeFileSync(file, 'short');
  await t.throwsAsync(readSecret(file), { code: 'ERR_CLUSTER_SECRET', message: /32 bytes/ });
  chmodSync(file, 0o640);
  const given = { name: 'test', nats: ['nats://127.0.0.1:1'] };
  for (const option of ['passwordFile', 'credentialsFile', 'nkeyFile', 'tlsKey']) {
    const error = { code: 'ERR_CLUSTER_RIGHTS', message: /chmod 600/ };
    await t.throwsAsync(openClusterLog({ ...given, [option]: file }), error);
  }
});
