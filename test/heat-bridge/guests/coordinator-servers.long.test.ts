/**
 * etcd and ZooKeeper as coordinators: the common test suite, and real servers that are killed
 * meanwhile.
 */

import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createServer as createTlsServer } from 'node:tls';
import { fileURLToPath } from 'node:url';
import test, { type ExecutionContext } from 'ava';
import { pino } from 'pino';
import type { Coordinator } from '#guests/data-spaces/coordinator.ts';
import {
  type CoordinatorOptions,
  openCoordinator,
} from '#guests/data-spaces/coordinator-options.ts';
import type { DataSpaceRegistration } from '#guests/data-spaces/data-spaces.ts';
import { createEtcdCoordinator } from '#guests/data-spaces/etcd-coordinator.ts';
import { type EtcdAccess, EtcdGateway } from '#guests/data-spaces/etcd-gateway.ts';
import { ZookeeperCoordinator } from '#guests/data-spaces/zookeeper-coordinator.ts';
import {
  type CoordinatorServer,
  hasEtcd,
  hasZookeeper,
  startEtcd,
  startZookeeper,
} from '../../helpers/coordinator-servers.ts';
import { until, within } from '../../helpers/deadline.ts';
import { testWhere } from '../../helpers/needs.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { memoryState } from '../signals/open-signals.ts';
import { coordinatorSuite } from './coordinator-suite.ts';
import { codeOf, startGuests } from './stage.ts';

const directory = mkdtempSync(path.join(tmpdir(), 'saltbridge-test-'));
const servers: CoordinatorServer[] = [];
test.after.always(async () => {
  for (const server of servers) await server.kill();
  rmSync(directory, { recursive: true, force: true });
});

/** A kind of server. All tests of a kind share one server, each with its own prefix. */
interface Kind {
  readonly name: 'etcd' | 'zookeeper';
  readonly needs: string;
  readonly isThere: boolean;
  readonly start: (folder: string) => Promise<CoordinatorServer>;
  readonly open: (port: number, root: string) => Coordinator;
  /** Returns the section `data: coordinator:`. */
  readonly section: (port: number, root: string) => object;
}

const quiet = { warn: (): void => {} };
const kinds: readonly Kind[] = [
  {
    name: 'etcd',
    needs: 'etcd of Debian',
    isThere: hasEtcd,
    start: (folder) => startEtcd(folder),
    open: (port, root) => {
      const endpoints = [`http://127.0.0.1:${port}`];
      const gateway = new EtcdGateway({
        endpoints,
        readAccess: async () => ({}),
        timeoutMs: 5_000,
      });
      return createEtcdCoordinator({ gateway, prefix: `${root}/`, log: quiet });
    },
    section: (port, prefix) => ({ etcd: { endpoints: [`http://127.0.0.1:${port}`], prefix } }),
  },
  {
    name: 'zookeeper',
    needs: 'zookeeper of Debian',
    isThere: hasZookeeper,
    start: startZookeeper,
    open: (port, root) =>
      new ZookeeperCoordinator({
        servers: [{ host: '127.0.0.1', port }],
        root,
        readAccess: async () => ({ tls: undefined, credentials: undefined }),
        timeoutMs: 5_000,
        log: quiet,
      }),
    section: (port, root) => ({ zookeeper: { servers: [`127.0.0.1:${port}`], path: root } }),
  },
];

const shop: DataSpaceRegistration = {
  name: 'shop',
  roles: {
    db: {
      minions: ['db-1'],
      writes: { address: {}, password: { secret: true }, state: { versioned: true } },
    },
    app: {
      minions: ['app-1'],
      reads: { host: 'db/address', password: 'db/password', state: 'db/state' },
    },
  },
};

for (const kind of kinds) {
  const declare = testWhere(kind.isThere, kind.needs, test);
  const declareLong = testWhere(
    kind.isThere,
    kind.needs,
    // The JVM starts three times.
    kind.name === 'zookeeper' ? test.serial : test.serial,
  );
  const folder = path.join(directory, kind.name);
  let starting: Promise<CoordinatorServer> | undefined;
  const server = (): Promise<CoordinatorServer> => {
    starting ??= kind.start(folder).then((it) => {
      servers.push(it);
      return it;
    });
    return starting;
  };
  const connected = async (t: ExecutionContext, root: string): Promise<Coordinator> => {
    const coordinator = kind.open((await server()).port, root);
    t.teardown(() => coordinator.close());
    await until('the connection', () => coordinator.isConnected?.() ?? true);
    return coordinator;
  };

  declareLong(
    `${kind.name}: killed and started again, nothing acknowledged is lost and waits go on`,
    async (t) => {
      const running = await server();
      const root = `/tests/${randomUUID()}`;
      const stage = await startGuests(t, {
        guests: { data: { coordinator: kind.section(running.port, root) } },
      });
      const { id } = await stage.bridge.data.add(shop);
      const [db, app] = [await stage.guest('db-1'), await stage.guest('app-1')];
      const isConnected = async (): Promise<number | undefined> => {
        const { extensions } = await stage.master.status();
        return extensions?.bridge?.data_coordinator_connected;
      };
      t.is((await putAgain(() => db.put('db/password', 'sealed-4711'))).status, 200);
      t.is((await app.get('db/password')).text, 'sealed-4711');
      const waiting = app.get('db/address', '&wait=20');

      await running.kill();
      t.is(codeOf(await db.put('db/address', 'plain-4711')), 'ERR_DATA_UNAVAILABLE');
      t.is((await db.put('db/address', 'plain-4711')).status, 503);
      t.is(codeOf(await app.get('db/password')), 'ERR_DATA_UNAVAILABLE');
      t.is(await isConnected(), 0);
      await running.start();
      await putAgain(() => db.put('db/address', 'plain-4711'));
      t.is((await within('the value', waiting)).text, 'plain-4711');
      t.is((await app.get('db/password')).text, 'sealed-4711');
      t.is(await isConnected(), 1);

      // The server is killed while a client keeps writing.
      const written = 40;
      let killed: Promise<void> | undefined;
      for (let count = 1; count <= written; count += 1) {
        const put = (): ReturnType<typeof db.put> => db.put('db/state', String(count));
        if (count === 15) killed = running.kill().then(() => running.start());
        const { json } = await putAgain(put);
        t.deepEqual(json, { key: 'db/state', version: count });
      }
      await killed;
      t.is((await app.get('db/state')).text, String(written));
      t.regex(bytesBelow(folder), /plain-4711/);
      t.notRegex(bytesBelow(folder), /sealed-4711/);

      // The data is removed with the stack, even if the server is not running at that time.
      const before = await connected(t, root);
      t.is((await before.sizes(id)).size, 3);
      await running.kill();
      await stage.bridge.data.remove('shop');
      t.is(codeOf(await app.get('db/state')), 'ERR_DATA_UNKNOWN');
      await running.start();
      const coordinator = await connected(t, root);
      for (let left = 3; left > 0; left = (await coordinator.sizes(id)).size) {
        await new Promise((resolve) => {
          setTimeout(resolve, 50);
        });
      }
      t.pass();
    },
  );

  declare(
    `${kind.name}: what something else wrote there is refused, and is in no pillar`,
    async (t) => {
      const root = `/tests/${randomUUID()}`;
      const stage = await startGuests(t, {
        guests: { data: { coordinator: kind.section((await server()).port, root) } },
      });
      const { id } = await stage.bridge.data.add(shop);
      const [db, app] = [await stage.guest('db-1'), await stage.guest('app-1')];
      const beside = await connected(t, root);
      await putAgain(() => db.put('db/address', '10.0.0.5'));
      await db.put('db/state', 'ready');
      const { value = new Uint8Array() } = (await beside.get(id, 'db/address')) ?? {};
      t.regex(Buffer.from(value).toString('latin1'), /10\.0\.0\.5$/);
      const forged = Buffer.from(value.map((byte, at) => (at === value.length - 1 ? 0x36 : byte)));
      t.true(await beside.put(id, 'db/address', { value: forged, version: 2 }));
      t.is(codeOf(await app.get('db/address')), 'ERR_DATA_ALTERED');
      t.is(codeOf(await db.put('db/address', '10.0.0.5')), 'ERR_DATA_ALTERED');
      const pillar = JSON.stringify(await stage.master.pillar.show({ minion: 'app-1' }));
      t.regex(pillar, /"attributes":\{"state":"ready"\}/);
      await beside.remove(id);
      t.deepEqual((await db.put('db/address', '10.0.0.5')).json, { key: 'db/address', version: 1 });
      t.is((await app.get('db/address')).text, '10.0.0.5');
    },
  );

  declare(`${kind.name}: 1,500 values of a space are counted and end together`, async (t) => {
    const coordinator = await connected(t, `/tests/${randomUUID()}`);
    const keys = Array.from({ length: 1_500 }, (_, index) => `role/value-${index}`);
    await coordinator.put('s', 'role/large', { value: new Uint8Array(65_536), version: 1 });
    await Promise.all(
      keys.map((key) => coordinator.put('s', key, { value: Buffer.from('x'), version: 1 })),
    );
    const sizes = await coordinator.sizes('s');
    t.is(sizes.size, 1_501);
    t.is(sizes.get('role/large'), 65_536);
    await coordinator.remove('s');
    t.is((await coordinator.sizes('s')).size, 0);
    await t.notThrowsAsync(coordinator.remove('s'));
  });

  if (kind.isThere) {
    coordinatorSuite(kind.name, async (t) => {
      const root = `/tests/${randomUUID()}`;
      return {
        coordinator: await connected(t, root),
        restart: () => connected(t, root),
      };
    });
  } else declare(`${kind.name}: the suite of all coordinators`, () => {});
}

const fixture = (name: string): string =>
  fileURLToPath(new URL(`../../../test/fixtures/tls/${name}`, import.meta.url));
const tlsFiles = { ca: fixture('ca.pem'), cert: fixture('master.pem'), key: fixture('master.key') };

/** Opens a coordinator from its section, like the master. */
async function openFrom(t: ExecutionContext, section: CoordinatorOptions): Promise<Coordinator> {
  const folder = temporaryDirectory(t);
  const config = { confFile: path.join(folder, 'master') };
  writeFileSync(path.join(folder, 'password'), 'the password\n');
  writeFileSync(path.join(folder, 'wrong'), 'another password\n');
  writeFileSync(path.join(folder, 'credentials'), 'bridge:the password\n');
  const logger = pino({ level: 'silent' });
  const coordinator = await openCoordinator(section, { config, logger, shared: memoryState() });
  t.teardown(() => coordinator.close());
  return coordinator;
}

const whereEtcd = testWhere(hasEtcd, 'etcd of Debian', test);
const whereZookeeper = testWhere(hasZookeeper, 'zookeeper of Debian', test);
const isAway = { code: 'ERR_DATA_UNAVAILABLE' };

whereEtcd('etcd: with a password, over TLS', async (t) => {
  const { cert, key, ca } = tlsFiles;
  const server = await startEtcd(temporaryDirectory(t), { tls: { cert, key } });
  t.teardown(() => server.kill());
  const endpoints = [`https://127.0.0.1:${server.port}`];
  const readAccess = async (): Promise<EtcdAccess> => ({ tls: { ca: readFileSync(ca) } });
  const admin = new EtcdGateway({ endpoints, readAccess, timeoutMs: 5_000 });
  t.teardown(() => admin.close());
  await admin.call('/v3/auth/user/add', { name: 'root', password: 'the password' });
  await admin.call('/v3/auth/role/add', { name: 'root' });
  await admin.call('/v3/auth/user/grant', { user: 'root', role: 'root' });
  await admin.call('/v3/auth/enable', {});

  const etcd = { endpoints, ca_file: ca };
  const account = { username: 'root', password_file: 'password' };
  const permitted = await openFrom(t, { etcd: { ...etcd, ...account } });
  t.true(await permitted.put('s', 'k', { value: Buffer.from('x'), version: 1 }));
  t.is((await permitted.get('s', 'k'))?.version, 1);
  await until('the stream', () => permitted.isConnected?.() ?? false);
  const told = new Promise<void>((resolve) => {
    permitted.watch('s', 'k', resolve);
  });
  await permitted.put('s', 'k', { value: Buffer.from('y'), version: 2 });
  await within('the change', told);
  const wrong = await openFrom(t, { etcd: { ...etcd, ...account, password_file: 'wrong' } });
  await t.throwsAsync(wrong.get('s', 'k'), isAway);
  const anonymous = await openFrom(t, { etcd });
  await t.throwsAsync(anonymous.get('s', 'k'), isAway);
  const untrusting = await openFrom(t, { etcd: { endpoints, ...account } });
  await t.throwsAsync(untrusting.get('s', 'k'), isAway);
});

whereEtcd('etcd: with certificates on both sides', async (t) => {
  const { cert, key, ca } = tlsFiles;
  const server = await startEtcd(temporaryDirectory(t), { tls: tlsFiles });
  t.teardown(() => server.kill());
  const etcd = { endpoints: [`https://127.0.0.1:${server.port}`], ca_file: ca };
  const permitted = await openFrom(t, { etcd: { ...etcd, cert_file: cert, key_file: key } });
  t.true(await permitted.put('s', 'k', { value: Buffer.from('x'), version: 1 }));
  const others = await openFrom(t, { etcd });
  await t.throwsAsync(others.get('s', 'k'), isAway);
});

whereZookeeper('zookeeper: over TLS, with nodes that belong to its credentials', async (t) => {
  const server = await startZookeeper(temporaryDirectory(t));
  t.teardown(() => server.kill());
  // Without Netty's classes, Debian's server has no TLS. Another program terminates TLS in front of
  // it.
  const cert = { cert: readFileSync(tlsFiles.cert), key: readFileSync(tlsFiles.key) };
  const terminator = createTlsServer(
    { ...cert, ca: readFileSync(tlsFiles.ca), requestCert: true, rejectUnauthorized: true },
    (socket) => {
      const inner = connect(server.port, '127.0.0.1');
      socket.pipe(inner).pipe(socket);
      socket.on('error', () => inner.destroy());
      inner.on('error', () => socket.destroy());
    },
  );
  terminator.on('tlsClientError', () => {});
  terminator.listen(0, '127.0.0.1');
  await once(terminator, 'listening');
  t.teardown(() => terminator.close());
  const address = terminator.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  const files = { ca_file: tlsFiles.ca, cert_file: tlsFiles.cert, key_file: tlsFiles.key };
  const section = { servers: [`127.0.0.1:${port}`], credentials_file: 'credentials' };
  const permitted = await openFrom(t, { zookeeper: { ...section, ...files } });
  await until('the connection', () => permitted.isConnected?.() ?? false);
  t.true(await permitted.put('s', 'k', { value: Buffer.from('x'), version: 1 }));
  t.is((await permitted.get('s', 'k'))?.version, 1);
  const others = await openFrom(t, { zookeeper: { servers: [`127.0.0.1:${server.port}`] } });
  await until('the connection', () => others.isConnected?.() ?? false);
  await t.throwsAsync(others.get('s', 'k'), isAway);
  await t.throwsAsync(others.put('s', 'k', { value: Buffer.from('y'), version: 2 }), isAway);
});

/** Repeats a write while the status is 503, like `saltbridge-data put`. */
async function putAgain<T extends { readonly status: number }>(put: () => Promise<T>): Promise<T> {
  for (;;) {
    const answer = await put();
    if (answer.status !== 503) return answer;
    await new Promise((resolve) => {
      setTimeout(resolve, 50);
    });
  }
}

/** Returns everything that a server has stored on the disk. */
function bytesBelow(folder: string): string {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((it) => it.isFile())
    .map((it) => readFileSync(path.join(it.parentPath, it.name), 'latin1'))
    .join('\n');
}
