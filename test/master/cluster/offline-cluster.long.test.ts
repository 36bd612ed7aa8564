/** The beginning and end of a membership, and rejected uses of a member's files. */
import {
  appendFileSync,
  chownSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import test from 'ava';
import {
  copyMaster,
  exportStore,
  importStore,
  initCluster,
  joinCluster,
  leaveCluster,
  refoundCluster,
} from '#cluster';
import { resolveMasterConfig, storeDirectory } from '#config';
import { type Bridge, createBridge } from '#guests';
import {
  backupOfflineStore,
  type Master,
  openOfflineKeys,
  restoreMasterStore,
  verifyAuditLog,
} from '#master';
import { createMemoryTransport } from '#minion-protocol/transport/memory-transport.ts';
import { createMaster } from '#server';
import { openEmbeddedStore, readBackup, readStore, StoreError } from '#store';
import { ClusterMasters } from '../../helpers/cluster-masters.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { directories, writeMasterKeys } from '../../helpers/vector-master.ts';
import { pem } from '../../helpers/vectors.ts';

const { publicPem } = pem('other_minion');
const hook = { endpoint: 'https://heat.example.org/signal', token: 'tOken' };

test('the state and the keys of a master become those of a cluster, and of a master again', async (t) => {
  const root = temporaryDirectory(t);
  const masters = new ClusterMasters(root);
  const config = masters.configOf('a');
  const own = resolveMasterConfig(directories(path.join(root, 'a')));
  writeMasterKeys(config.pkiDir);
  let bridge = createBridge();
  const handle = (alias: string) => bridge.handles.add({ alias, minions: ['web1'], signal: hook });
  const start = async (given: typeof own) => {
    bridge = createBridge();
    const master = createMaster({
      config: given,
      extensions: [bridge],
      transports: [createMemoryTransport().master],
      clusterLog: masters.connect,
    });
    await master.start();
    return master;
  };
  const before = await start(own);
  await before.keys.create({ id: 'web1' });
  await handle('one');
  await before.audit.flush();
  await before.close();

  const options = { connect: masters.connect };
  const { secretFile } = await initCluster(config, options);
  t.is(readFileSync(secretFile, 'utf8').trim().length, 44);
  await t.throwsAsync(initCluster(config, options), { code: 'ERR_CLUSTER_FOUNDED' });
  await t.throwsAsync(openOfflineKeys(config), { code: 'ERR_MASTER_STOPPED' });
  await t.throwsAsync(openEmbeddedStore({ directory: storeDirectory(config.stateDir) }), {
    code: 'ERR_CLUSTER_LOG',
  });
  await t.throwsAsync(backupOfflineStore(config, path.join(root, 'backup')), {
    code: 'ERR_CLUSTER_LOG',
  });
  await t.throwsAsync(restoreMasterStore(config, path.join(root, 'backup')), {
    code: 'ERR_STORE_BACKUP',
    message: /its store belongs to the cluster/,
  });

  const member = await start(config);
  t.deepEqual(
    (await member.keys.list({ state: 'accepted' })).map(({ id }) => id),
    ['web1'],
  );
  await member.keys.create({ id: 'web2' });
  // Shared data is not moved.
  t.is((await bridge.handles.show('one')).minions[0], 'web1');
  await handle('two');
  await member.audit.flush();
  await member.close();
  t.deepEqual((await verifyAuditLog(config)).problems, []);

  await leaveCluster(config, options);
  const after = await start(own);
  t.teardown(() => after.close());
  t.deepEqual(
    (await after.keys.list({ state: 'accepted' })).map(({ id }) => id),
    ['web1', 'web2'],
  );
  t.deepEqual(
    (await bridge.handles.list()).map(({ alias }) => alias),
    ['one', 'two'],
  );
  await after.close();
  t.deepEqual((await verifyAuditLog(own)).problems, []);
  // A cluster can be founded with this store again.
  await initCluster(config, { connect: new ClusterMasters(root).connect });
});

test('the log is created again from the store of a member, which continues with it', async (t) => {
  const masters = new ClusterMasters(temporaryDirectory(t));
  const a = await masters.first('a');
  await a.master.keys.create({ id: 'web1' });
  await a.master.close();
  masters.log.trim(masters.log.last);
  masters.log.truncate(0);
  await t.throwsAsync(masters.start(a.config), { code: 'ERR_STORE_DIVERGED' });
  await refoundCluster(a.config, { connect: masters.connect, quietMs: 0 });
  const again = await masters.start(a.config);
  t.teardown(() => again.master.close());
  t.deepEqual(
    (await again.master.keys.list({ state: 'accepted' })).map(({ id }) => id),
    ['web1'],
  );
});

test('a cluster is restored to a position from a backup and the log', async (t) => {
  const root = temporaryDirectory(t);
  const masters = new ClusterMasters(root);
  const a = await masters.first('a');
  const b = await masters.join('b', a);
  t.teardown(() => b.master.close());
  const idsOf = async ({ keys }: Master) => (await keys.list()).map(({ id }) => id);
  await a.master.keys.create({ id: 'web1' });
  const file = path.join(root, 'backup');
  await a.master.store.backup(file);
  await a.master.keys.create({ id: 'web2' });
  const { position } = (await a.master.cluster.status()) ?? {};
  await a.master.keys.create({ id: 'web3' });
  await b.master.close();
  const { connect } = masters;
  const point = { file, until: { position: position ?? 0 } };
  const { first } = masters.log;
  await t.throwsAsync(refoundCluster(a.config, { connect, quietMs: 1500 }, point), {
    code: 'ERR_STORE_LOCKED',
    message: /members of cluster test are still running/,
  });
  t.is(masters.log.first, first);
  await a.master.close();
  const { restored } = await refoundCluster(a.config, { connect, quietMs: 0 }, point);
  t.is(restored?.to, position);
  t.true(existsSync(path.join(restored?.old ?? '', 'data.mdb')));
  const again = await masters.start(a.config);
  t.teardown(() => again.master.close());
  t.deepEqual(await idsOf(again.master), ['web1', 'web2']);
  t.false(existsSync(path.join(a.config.pkiDir, 'minions', 'web3')));
  // The store of another member is not used, because it may be out of date.
  const error = await t.throwsAsync(masters.start(b.config), { instanceOf: StoreError });
  t.true(['ERR_CLUSTER_BEHIND', 'ERR_STORE_DIVERGED'].includes(error?.code ?? ''), error?.code);
  const c = await masters.join('c', again);
  t.teardown(() => c.master.close());
  t.deepEqual(await idsOf(c.master), ['web1', 'web2']);

  // All machines are lost. The backup, the secret and the configuration remain.
  const elsewhere = new ClusterMasters(path.join(root, 'elsewhere'));
  const config = elsewhere.configOf('z');
  mkdirSync(config.stateDir, { recursive: true, mode: 0o700 });
  const secretIn = ({ stateDir }: typeof config) => path.join(stateDir, 'cluster.secret');
  cpSync(secretIn(a.config), secretIn(config));
  await refoundCluster(config, { connect: elsewhere.connect, quietMs: 0 }, { file });
  const z = await elsewhere.start(config);
  t.teardown(() => z.master.close());
  t.deepEqual(await idsOf(z.master), ['web1']);
  const own = (member: typeof config) => readFileSync(path.join(member.pkiDir, 'master.pub'));
  t.deepEqual(own(config), own(a.config));
});

test('a master with its own store, or without the current cluster secret, cannot join', async (t) => {
  const masters = new ClusterMasters(temporaryDirectory(t));
  const a = await masters.first('a');
  t.teardown(() => a.master.close());
  const { ticket } = await a.master.cluster.ticket();
  await t.throwsAsync(joinCluster(a.config, ticket, { connect: masters.connect }), {
    code: 'ERR_CLUSTER_FOUNDED',
  });
  const other = masters.configOf('b');
  const store = await openEmbeddedStore({ directory: storeDirectory(other.stateDir) });
  await store.close();
  const error = await t.throwsAsync(joinCluster(other, ticket, { connect: masters.connect }), {
    code: 'ERR_CLUSTER_FOUNDED',
  });
  t.regex(error.message, /is the store of a standalone master/);
  // The ticket is still valid.
  await joinCluster(masters.configOf('c'), ticket, { connect: masters.connect });
});

test("a member's keys replace another master's, which are moved aside", async (t) => {
  const masters = new ClusterMasters(temporaryDirectory(t));
  const a = await masters.first('a');
  t.teardown(() => a.master.close());
  await a.master.keys.create({ id: 'web1' });
  const config = masters.configOf('b');
  const { ticket } = await a.master.cluster.ticket();
  await joinCluster(config, ticket, { connect: masters.connect });
  writeMasterKeys(config.pkiDir);
  const stray = path.join(config.pkiDir, 'master.pub');
  writeFileSync(stray, publicPem);
  const b = await masters.start(config);
  t.teardown(() => b.master.close());
  t.is(readFileSync(stray, 'utf8'), readFileSync(path.join(a.config.pkiDir, 'master.pub'), 'utf8'));
  t.true(existsSync(path.join(config.pkiDir, 'minions', 'web1')));
  // Decisions of other members while this one was stopped are included when it leaves.
  const c = await masters.join('c', a);
  t.teardown(() => c.master.close());
  await b.master.close();
  await a.master.keys.create({ id: 'web2' });
  await leaveCluster(config, { connect: masters.connect });
  t.deepEqual(readdirSync(path.join(config.pkiDir, 'minions')).sort(), ['web1', 'web2']);
});

/** Id of a service account, for which root copies files. */
const service = process.getuid?.() === 0 ? 65_534 : (process.getuid?.() ?? 0);

/** Whether everything below a directory belongs to the service account. */
function isOfService(directory: string): boolean {
  return readdirSync(directory, { recursive: true, withFileTypes: true }).every(
    (it) => lstatSync(path.join(it.parentPath, it.name)).uid === service,
  );
}

test('a master is copied into a new cluster as its first member, and out of it again', async (t) => {
  const root = temporaryDirectory(t);
  const masters = new ClusterMasters(root);
  const { connect } = masters;
  const own = resolveMasterConfig(directories(path.join(root, 'own')));
  const alone = resolveMasterConfig(directories(path.join(root, 'alone')));
  const a = masters.configOf('a');
  writeMasterKeys(own.pkiDir);
  const withMaster = async (
    config: typeof own,
    work: (master: Master, bridge: Bridge) => Promise<void>,
  ) => {
    const bridge = createBridge();
    const master = createMaster({
      config,
      extensions: [bridge],
      transports: [createMemoryTransport().master],
      clusterLog: connect,
    });
    await master.start();
    try {
      await work(master, bridge);
      await master.audit.flush();
    } finally {
      await master.close();
    }
  };
  await withMaster(own, async (master, bridge) => {
    await master.keys.create({ id: 'web1' });
    await bridge.handles.add({ alias: 'one', minions: ['web1'], signal: hook });
    await t.throwsAsync(copyMaster(a, own, { connect }), { code: 'ERR_STORE_LOCKED' });
    t.false(existsSync(a.stateDir));
  });
  await t.throwsAsync(copyMaster(own, own), { message: /saltbridge cluster init/ });
  // A site has its release in `state_dir`, and a link to it.
  const deep = path.join('site', 'bundles', '3', 'tree', ...'abcdefghijklmnopq');
  mkdirSync(path.join(own.stateDir, deep), { recursive: true });
  writeFileSync(path.join(own.stateDir, deep, '.bashrc'), 'alias ll=ls');
  symlinkSync('bundles/3', path.join(own.stateDir, 'site', 'current'));
  symlinkSync(root, path.join(own.stateDir, 'site', 'outside'));
  writeFileSync(path.join(own.stateDir, 'site', 'file.0123456789ab.tmp'), '');
  for (const { stateDir, pkiDir } of [a, alone]) {
    for (const directory of [stateDir, pkiDir]) {
      mkdirSync(directory, { recursive: true, mode: 0o700 });
      if (process.getuid?.() === 0) chownSync(directory, service, service);
    }
  }

  const copied = await copyMaster(a, own, { connect });
  t.true(isOfService(a.stateDir) && isOfService(a.pkiDir));
  t.is(copied.cluster?.member, 'a');
  t.true(copied.content.entries > 0);
  t.deepEqual(readdirSync(a.stateDir).sort(), [
    'audit',
    'cluster.secret',
    'enroll',
    'seal.key',
    'site',
    'store',
  ]);
  t.is(readFileSync(path.join(a.stateDir, deep, '.bashrc'), 'utf8'), 'alias ll=ls');
  t.deepEqual(readdirSync(path.join(a.stateDir, 'site')).sort(), ['bundles', 'current']);
  t.is(readlinkSync(path.join(a.stateDir, 'site', 'current')), 'bundles/3');
  await t.throwsAsync(copyMaster(masters.configOf('b'), own, { connect }), {
    code: 'ERR_CLUSTER_FOUNDED',
  });
  t.deepEqual(readdirSync(masters.configOf('b').stateDir), []);
  await withMaster(a, async (master, bridge) => {
    t.deepEqual(
      (await master.keys.list({ state: 'accepted' })).map(({ id }) => id),
      ['web1'],
    );
    await master.keys.create({ id: 'web2' });
    await bridge.handles.add({ alias: 'two', minions: ['web2'], signal: hook });
    // This also works while another member is running.
    const target = path.join(root, 'running');
    await exportStore(a, target);
    t.true((await readBackup(path.join(target, 'store.mdb'))) > 0);
    t.is(statSync(target).mode & 0o777, 0o700);
  });
  t.deepEqual((await verifyAuditLog(a)).problems, []);

  await copyMaster(alone, a);
  t.true(isOfService(alone.stateDir) && isOfService(alone.pkiDir));
  t.false(existsSync(path.join(alone.stateDir, 'cluster.secret')));
  await withMaster(alone, async (master, bridge) => {
    t.deepEqual(
      (await master.keys.list({ state: 'accepted' })).map(({ id }) => id),
      ['web1', 'web2'],
    );
    t.deepEqual(
      (await bridge.handles.list()).map(({ alias }) => alias),
      ['one', 'two'],
    );
  });
  t.deepEqual((await verifyAuditLog(alone)).problems, []);
  const pub = (config: typeof own) => readFileSync(path.join(config.pkiDir, 'master.pub'), 'utf8');
  t.is(pub(alone), pub(own));
});

test('an incomplete or unsuitable export is refused and leaves nothing behind', async (t) => {
  const root = temporaryDirectory(t);
  const masters = new ClusterMasters(root);
  const { connect } = masters;
  const own = resolveMasterConfig(directories(path.join(root, 'own')));
  writeMasterKeys(own.pkiDir);
  const store = await openEmbeddedStore({ directory: storeDirectory(own.stateDir) });
  const [shared, ofOne] = [
    ['state', 'bridge', 'stacks', 's1'],
    ['state', 'kept'],
  ];
  await store.write([
    { op: 'put', key: shared, value: Buffer.from('1') },
    { op: 'put', key: ofOne, value: Buffer.from('1') },
    { op: 'put', key: ['state', 'ends'], value: Buffer.from('1'), expiresAt: Date.now() + 60_000 },
    { op: 'append', stream: 's', value: Buffer.from('1') },
  ]);
  await store.close();
  const exported = path.join(root, 'export');
  const { content } = await exportStore(own, exported);
  t.deepEqual([content.entries, content.records], [3, 1]);
  await t.throwsAsync(exportStore(own, exported), { code: 'ERR_STORE_BACKUP' });
  const config = masters.configOf('a');
  const changed: string[] = [];
  const refused = async (change: (directory: string) => void, code: string) => {
    const directory = path.join(root, `changed-${changed.push(code)}`);
    cpSync(exported, directory, { recursive: true });
    change(directory);
    await t.throwsAsync(importStore(config, directory, { connect }), {
      instanceOf: StoreError,
      code,
    });
    t.deepEqual(readdirSync(config.stateDir, { recursive: true }), []);
    t.is(masters.log.last, 0);
  };
  const manifest = (directory: string) => path.join(directory, 'export.json');
  const otherDigest = (directory: string) => {
    const text = readFileSync(manifest(directory), 'utf8');
    writeFileSync(manifest(directory), text.replace(content.sha256, '0'.repeat(64)));
  };
  await t.throwsAsync(importStore(config, root, { connect }), { code: 'ERR_STORE_BACKUP' });
  await refused(otherDigest, 'ERR_STORE_DIGEST');
  await refused(
    (it) => appendFileSync(path.join(it, 'pki', 'master.pub'), ' '),
    'ERR_STORE_CORRUPT',
  );
  await refused((it) => writeFileSync(path.join(it, 'pki', 'other'), ''), 'ERR_STORE_CORRUPT');
  await refused((it) => appendFileSync(manifest(it), '}'), 'ERR_STORE_CORRUPT');
  writeMasterKeys(config.pkiDir);
  const key = path.join(config.pkiDir, 'master.pub');
  const known = readFileSync(key, 'utf8');
  writeFileSync(key, publicPem);
  await refused(() => {}, 'ERR_STORE_BACKUP');
  writeFileSync(key, known);
  await importStore(config, exported, { connect });
  await readStore(storeDirectory(config.stateDir), async (member) => {
    // The bridge's data is shared by all members.
    t.truthy(await member.get(shared));
    t.truthy(await member.get(['members', 'a', ...ofOne]));
    t.is(await member.get(ofOne), undefined);
  });
  await t.throwsAsync(importStore(config, exported, { connect }), { code: 'ERR_CLUSTER_FOUNDED' });
});
