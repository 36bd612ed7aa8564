/** The replicated store with a log on real NATS servers. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { nkeyAuthenticator, nkeys } from '@nats-io/transport-node';
import test, { type ExecutionContext } from 'ava';
import { initCluster, joinCluster } from '#cluster';
import { formatTicket } from '#cluster/join-frames.ts';
import { foundLog } from '#cluster/log/founding.ts';
import { openJetStreamLog } from '#cluster/log/jetstream-log.ts';
import { type LogStore, openLogStore } from '#cluster/log/log-store.ts';
import { resolveMasterConfig, storeDirectory } from '#config';
import { StoreError } from '#store';
import { type NatsServer, startNatsServers } from '../../bench/nats-cluster.ts';
import { until } from '../helpers/deadline.ts';
import { startOperatorServer } from '../helpers/nats-accounts.ts';
import { hasNatsServer, isRecommendedNatsServer, startNatsServer } from '../helpers/nats-server.ts';
import { testWhere } from '../helpers/needs.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { directories } from '../helpers/vector-master.ts';
import { contentOf } from '../store-suite/cluster.ts';

const onServers = testWhere(hasNatsServer, 'nats-server of Debian', test.serial);
/**
 * Declares tests for recommended servers. Older ones lose acknowledged entries if all servers are
 * killed at once.
 */
const onRecommendedServers = testWhere(
  isRecommendedNatsServer(),
  'nats-server 2.12 or later',
  test.serial,
);
const secret = Buffer.alloc(32, 7);
const refusedRights = { instanceOf: StoreError, code: 'ERR_CLUSTER_RIGHTS' } as const;

interface Setting {
  readonly servers: readonly NatsServer[];
  /**
   * Opens a member.
   * @param first - index of the server to which it connects first
   */
  open(member: string, first?: number): Promise<LogStore>;
}

async function start(t: ExecutionContext, count: number): Promise<Setting> {
  const directory = temporaryDirectory(t);
  const servers = await startNatsServers(directory, count);
  t.teardown(() => Promise.all(servers.map((server) => server.kill())));
  const connect = (first: number) => {
    const urls = servers.map(({ url }) => url);
    const rotated = [...urls.slice(first), ...urls.slice(0, first)];
    return openJetStreamLog({
      servers: rotated,
      cluster: 'test',
      create: { replicas: count },
      connectTimeoutMs: 40_000,
    });
  };
  const log = await connect(0);
  await foundLog({ log, secret, cluster: 'test' });
  await log.close();
  return {
    servers,
    open: async (member, first = 0) => {
      const store = await openLogStore({
        directory: path.join(directory, member),
        log: await connect(first),
        secret,
        cluster: 'test',
        member,
        reportIntervalMs: 100,
        checkIntervalMs: 300,
        writeTimeoutMs: 40_000,
        memberTimeoutMs: 40_000,
      });
      t.teardown(() => store.close());
      return store;
    },
  };
}

function append(store: LogStore, value: string): Promise<number> {
  return store.write([
    { op: 'append', stream: 's', value: Buffer.from(value) },
    { op: 'put', key: ['k', value], value: Buffer.from(value) },
  ]);
}

async function recordsOf(store: LogStore): Promise<string[]> {
  return (await store.stream('s').read()).map(({ value }) => Buffer.from(value).toString());
}

onServers('two members work over a server that is killed and restarted', async (t) => {
  const { servers, open } = await start(t, 1);
  const a = await open('a');
  const b = await open('b');
  await Promise.all(Array.from({ length: 100 }, (_, i) => append(i % 2 ? a : b, `1-${i}`)));
  t.deepEqual(
    [a.status.health.replicas, a.status.health.currentReplicas, a.status.isAlone],
    [1, 1, false],
  );
  t.regex(a.status.warnings.join(), /the log has 1 replicas/);
  await t.throwsAsync(a.write([{ op: 'put', key: ['large'], value: Buffer.alloc(1_100_000) }]), {
    instanceOf: StoreError,
    code: 'ERR_STORE_TOO_LARGE',
  });
  await servers[0]?.kill();
  const written = Array.from({ length: 20 }, (_, i) => append(i % 2 ? a : b, `2-${i}`));
  servers[0]?.start();
  await Promise.all(written);
  await Promise.all([a.barrier(), b.barrier()]);
  const records = await recordsOf(a);
  t.is(new Set(records).size, 120);
  t.is(records.length, 120);
  t.deepEqual(await recordsOf(b), records);
  t.deepEqual(await contentOf(a), await contentOf(b));
});

/** Writes until it is stopped. Returns the acknowledged writes and the longest wait. */
function writeOn(stores: readonly LogStore[]) {
  let isOver = false;
  const acknowledged: string[] = [];
  let longestMs = 0;
  const writers = stores.flatMap((store, index) =>
    Array.from({ length: 4 }, async (_, lane) => {
      for (let i = 0; !isOver; i += 1) {
        const start = performance.now();
        const value = `${index}-${lane}-${i}`;
        await append(store, value);
        acknowledged.push(value);
        longestMs = Math.max(longestMs, performance.now() - start);
      }
    }),
  );
  return {
    acknowledged,
    longestMs: () => longestMs,
    end: async () => {
      isOver = true;
      await Promise.all(writers);
    },
  };
}

onRecommendedServers(
  'members work with three servers whose leader is killed and which are all restarted',
  async (t) => {
    t.timeout(180_000);
    const { servers, open } = await start(t, 3);
    const stores = [await open('a', 0), await open('b', 1), await open('c', 2)];
    const [a] = stores;
    if (a === undefined) return t.fail();
    const load = writeOn(stores);
    for (const [index, server] of servers.entries()) {
      const before = load.acknowledged.length;
      await until('some writes', () => load.acknowledged.length > before + 50);
      await server.kill();
      await until('its absence', () => a.status.health.currentReplicas === 2);
      await until(`writes without server ${index}`, () => {
        return load.acknowledged.length > before + 200;
      });
      server.start();
      // If two of the three servers are down at once, there is no majority.
      await until('three copies', () => a.status.health.currentReplicas === 3);
    }
    await Promise.all(servers.map((server) => server.kill()));
    for (const server of servers) server.start();
    const before = load.acknowledged.length;
    await until('writes after the restart', () => load.acknowledged.length > before + 50);
    await load.end();
    t.log(`${load.acknowledged.length} writes, the longest ${Math.round(load.longestMs())} ms`);
    await Promise.all(stores.map((store) => store.barrier()));
    const records = await recordsOf(a);
    t.is(new Set(records).size, records.length, 'nothing twice');
    const kept = new Set(records);
    t.deepEqual(
      load.acknowledged.filter((value) => !kept.has(value)),
      [],
    );
    for (const store of stores) t.deepEqual(await recordsOf(store), records);
  },
);

/**
 * Returns the server configuration of docs/cluster.md for this cluster and users with these nkeys.
 */
function documentedAccounts(change: (text: string) => string): string {
  const text = readFileSync(new URL('../../docs/cluster.md', import.meta.url), 'utf8');
  const [, block = ''] = /^```conf\n(accounts \{.*?)^```/ms.exec(text) ?? [];
  return change(block.replaceAll('prod', 'test'));
}

onServers('the documented rights suffice, fewer are refused, and more are reported', async (t) => {
  const directory = temporaryDirectory(t);
  const [member, other, wide] = [nkeys.createUser(), nkeys.createUser(), nkeys.createUser()];
  const accounts = documentedAccounts((text) => {
    const [, user = ''] = /users: (\[.*\])\n {2}\}/s.exec(text) ?? [];
    const own = user.replace('UMEMBER', member.getPublicKey());
    const fewer = user
      .replace('UMEMBER', other.getPublicKey())
      .replace(/.*(STREAM\.PURGE|STREAM\.CREATE).*\n/g, '')
      .replace('"saltbridge.test.members", "_INBOX', '"_INBOX');
    const all = `{ nkey: ${wide.getPublicKey()} }`;
    const users = `[${[own, fewer].map((it) => it.slice(1, -1)).join('\n')}\n${all}]`;
    return text.replace(user, users);
  });
  const server = await startNatsServer(t, accounts.split('\n'));
  const configOf = (name: string, seed: Uint8Array) => {
    const nkeyFile = path.join(directory, `${name}.nk`);
    writeFileSync(nkeyFile, `# of a member\n${Buffer.from(seed)}\n`, { mode: 0o600 });
    return resolveMasterConfig({
      ...directories(path.join(directory, name)),
      cluster: {
        name: 'test',
        nats: [`nats://${server.host}`],
        member: name,
        replicas: 1,
        nkeyFile,
      },
    });
  };
  const few = configOf('few', other.getSeed());
  const error = await t.throwsAsync(initCluster(few), refusedRights);
  for (const missing of [
    'publish to $JS.API.STREAM.PURGE.saltbridge_test',
    'publish to $JS.API.STREAM.CREATE.saltbridge_test',
    'subscribe to saltbridge.test.members',
  ]) {
    t.true(error?.message.includes(missing), error?.message);
  }
  t.is(error?.message.match(/publish to|subscribe to/g)?.length, 3);
  const ticket = formatTicket({
    cluster: 'test',
    id: 'ab'.repeat(16),
    key: 'cd'.repeat(32),
    expiresAt: 0,
  });
  await t.throwsAsync(joinCluster(few, ticket), refusedRights);
  t.false(existsSync(few.stateDir));
  await t.throwsAsync(
    initCluster(configOf('unknown', nkeys.createUser().getSeed())),
    refusedRights,
  );
  const config = configOf('a', member.getSeed());
  await initCluster(config);
  const open = async (name: string, key: typeof member) =>
    openLogStore({
      directory: storeDirectory(config.stateDir),
      log: await openJetStreamLog({
        servers: [`nats://${server.host}`],
        cluster: 'test',
        nkeySeed: () => key.getSeed(),
      }),
      secret: Buffer.from(
        readFileSync(path.join(config.stateDir, 'cluster.secret'), 'utf8'),
        'base64',
      ),
      cluster: 'test',
      member: name,
      checkIntervalMs: 50,
    });
  const store = await open('a', member);
  const { position } = store.status;
  for (const name of ['1', '2', '3']) {
    await append(store, name);
    await store.backup(path.join(directory, `backup-${name}`));
  }
  t.true(store.status.health.first > position);
  t.deepEqual(store.status.health.excessRights, []);
  t.deepEqual([store.status.foreignEntries, store.status.repeatedEntries], [0, 0]);
  const before = store.status.health.first;
  await store.close();
  const observer = await server.connect({ authenticator: nkeyAuthenticator(wide.getSeed()) });
  const purges = observer.subscribe('$JS.API.STREAM.PURGE.saltbridge_test', { max: 1 });
  await observer.flush();
  const again = await open('a', wide);
  t.teardown(() => again.close());
  // The check of rights has deleted nothing, and would delete nothing on servers that permit
  // everything.
  t.is(again.status.health.first, before);
  for await (const purge of purges) t.like(purge.json(), { filter: 'saltbridge_rights_check' });
  t.regex(
    again.status.warnings.join(),
    /right to subscribe to all subjects, and to purge or delete/,
  );
});

onServers('a cluster starts with credentials of an account from nsc', async (t) => {
  const { server, credentialsFile } = await startOperatorServer(t);
  const nats = [`nats://${server.host}`];
  const cluster = { name: 'test', nats, member: 'a', replicas: 1 };
  const config = resolveMasterConfig({
    ...directories(temporaryDirectory(t)),
    cluster: { ...cluster, credentialsFile },
  });
  await t.throwsAsync(initCluster({ ...config, cluster }), refusedRights);
  await initCluster(config);
  await t.throwsAsync(initCluster(config), { code: 'ERR_CLUSTER_FOUNDED' });
});
