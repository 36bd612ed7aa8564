/**
 * Faults are added one by one to the files of a master. The doctor finds each, and nothing else.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer } from 'node:net';
import path from 'node:path';
import { TLSSocket } from 'node:tls';
import { fileURLToPath } from 'node:url';
import test, { type ExecutionContext } from 'ava';
import type { MasterStatus } from '#master';
import { doctorCodes } from '#server/diagnostics/report.ts';
import { type DiskRoom, runDoctor, type SystemInfo } from '#server/ops.ts';
import { openEmbeddedStore } from '#store';
import { encodeKey } from '#store/key-bytes.ts';
import { openLmdbTables } from '#store/lmdb-tables.ts';
import { packNumber } from '#store/row-layout.ts';
import { rsaPair } from '../../helpers/rsa-keys.ts';
import { copyOf, runOnce, type Site, start } from './healthy.ts';

type ClusterStatus = NonNullable<MasterStatus['cluster']>;

const hourMs = 3_600_000;
const plenty: DiskRoom = {
  freeBytes: 1e12,
  totalBytes: 2e12,
  freeInodes: 1e6,
  totalInodes: 2e6,
};
const roomy = async (): Promise<DiskRoom> => plenty;
const good = rsaPair(1).publicPem;
const small = rsaPair(0, 1024);

let template = '';
test.before(async () => {
  template = await runOnce();
});
test.after.always(() => rmSync(template, { recursive: true, force: true }));

/** Returns the codes that the doctor finds, each once. */
async function found(site: Site, world: Partial<SystemInfo> = {}): Promise<string[]> {
  const { directory, openApi } = site;
  const report = await runDoctor({ directory, openApi, world: { diskOf: roomy, ...world } });
  return [...new Set(report.findings.map(({ code }) => code))].sort();
}

const planted = new Set<string>();

/** Declares a test that adds one fault. `plant` may return other information about the system. */
function fault(
  code: string,
  what: string,
  plant: (site: Site, t: ExecutionContext) => Promise<Partial<SystemInfo> | undefined>,
): void {
  planted.add(code);
  test(`${what}, which doctor finds (${code})`, async (t) => {
    const site = await copyOf(t, template);
    const world = await plant(site, t);
    t.deepEqual(await found(site, world), [code]);
  });
}

/** Declares a test for a fault in a file or its mode. */
function fileFault(code: string, what: string, plant: (site: Site) => void): void {
  fault(code, what, async (site) => {
    plant(site);
    return undefined;
  });
}

function pki({ config }: Site, ...names: readonly string[]): string {
  return path.join(config.pkiDir, ...names);
}

function age(file: string, ms: number): void {
  const then = new Date(Date.now() - ms);
  utimesSync(file, then, then);
}

test('the directory of a stopped master has no finding', async (t) => {
  t.deepEqual(await found(await copyOf(t, template)), []);
});

test('a running master has no finding, and its versions are reported', async (t) => {
  const site = await copyOf(t, template);
  const master = await start(t, site);
  const report = await runDoctor({ ...site, world: { diskOf: roomy } });
  t.deepEqual(report.findings, []);
  t.true(report.isRunning);
  t.is(report.versions.saltbridge, (await master.status()).version);
  t.regex(report.versions.store ?? '', /^lmdb \d/);
});

test('a directory where no master ever ran has no finding', async (t) => {
  const site = await copyOf(t, template);
  for (const name of ['etc/salt/pki', 'var']) {
    rmSync(path.join(site.root, name), { recursive: true, force: true });
  }
  t.deepEqual(await found(site), []);
});

test('the doctor changes neither modes nor files', async (t) => {
  const site = await copyOf(t, template);
  chmodSync(site.config.stateDir, 0o755);
  chmodSync(pki(site, 'master.pem'), 0o644);
  const leftover = pki(site, '.saltbridge-x.tmp');
  writeFileSync(leftover, 'x');
  const data = path.join(site.config.stateDir, 'store', 'data.mdb');
  const before = readFileSync(data);
  await found(site);
  t.is(statSync(site.config.stateDir).mode & 0o777, 0o755);
  t.is(statSync(pki(site, 'master.pem')).mode & 0o777, 0o644);
  t.true(statSync(leftover).isFile());
  t.deepEqual(readFileSync(data), before);
});

fault('port-in-use', 'another program listens on a port', async (site, t) => {
  const server = createServer();
  const port = await new Promise<number>((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      resolve(typeof address === 'object' && address !== null ? address.port : 0);
    });
  });
  t.teardown(() => server.close());
  site.set({ publish_port: port });
  return undefined;
});

fileFault('port-unavailable', 'the machine does not have the address', (site) => {
  site.set({ interface: '192.0.2.1', ret_port: 24_506 });
});

fileFault('directory-writable', 'everybody may write to where accepted keys are', (site) => {
  chmodSync(pki(site, 'minions'), 0o777);
});

fileFault('directory-writable', 'everybody may write to the directory above the keys', (site) => {
  chmodSync(path.dirname(site.config.pkiDir), 0o777);
});

fileFault('directory-writable', 'the group may write to the state', (site) => {
  chmodSync(site.config.stateDir, 0o770);
});

fault('directory-owner', 'the files belong to another user', async () => ({
  uid: (process.getuid?.() ?? 0) + 1,
}));

fileFault('secret-readable', "everybody may read the master's private key", (site) => {
  chmodSync(pki(site, 'master.pem'), 0o444);
});

fileFault('secret-readable', 'the group may read the key of the seal', (site) => {
  chmodSync(path.join(site.config.stateDir, 'seal.key'), 0o640);
});

test('the key that signs the public key is opened with its own passphrase', async (t) => {
  const site = await copyOf(t, template);
  site.set({ master_sign_pubkey: true, signing_key_pass: 'right' });
  const { privatePem, publicPem } = rsaPair(2);
  const sealed = createPrivateKey(privatePem).export({
    type: 'pkcs8',
    format: 'pem',
    cipher: 'aes-256-cbc',
    passphrase: 'right',
  });
  writeFileSync(pki(site, 'master_sign.pem'), sealed, { mode: 0o400 });
  writeFileSync(pki(site, 'master_sign.pub'), publicPem);
  t.deepEqual(await found(site), []);
  site.set({ master_sign_pubkey: true, key_pass: 'right' });
  t.deepEqual(await found(site), ['own-key-unreadable']);
});

fileFault('own-key-mismatch', 'the public half is of another pair', (site) => {
  writeFileSync(pki(site, 'master.pub'), good);
});

fileFault('own-key-missing', 'the public half is there alone', (site) => {
  rmSync(pki(site, 'master.pem'));
});

fileFault('own-key-signature', 'the signature of the public key is missing', (site) => {
  site.set({ master_sign_pubkey: true, master_use_pubkey_signature: true });
});

fileFault('own-key-small', 'the pair has 1024 bits', (site) => {
  rmSync(pki(site, 'master.pem'));
  writeFileSync(pki(site, 'master.pem'), small.privatePem, { mode: 0o400 });
  writeFileSync(pki(site, 'master.pub'), small.publicPem);
});

fileFault('own-key-unreadable', 'the private half is no key', (site) => {
  rmSync(pki(site, 'master.pem'));
  writeFileSync(pki(site, 'master.pem'), 'no key', { mode: 0o400 });
});

fileFault('minion-key-small', 'a minion has a key of 1024 bits', (site) => {
  writeFileSync(pki(site, 'minions_pre', 'old1'), small.publicPem);
});

fileFault('minion-key-unusable', 'the file of a key was cut short', (site) => {
  writeFileSync(pki(site, 'minions_pre', 'cut1'), good.slice(0, 100));
});

fileFault('minion-key-duplicate', 'a machine was cloned with its key', (site) => {
  copyFileSync(pki(site, 'minions', 'web1'), pki(site, 'minions_pre', 'web2'));
});

fileFault('minion-id-alike', 'an id differs from an accepted one in case only', (site) => {
  writeFileSync(pki(site, 'minions_pre', 'WEB1'), good);
});

fileFault('minion-id-unusual', 'a key waits under an id that is a glob', (site) => {
  writeFileSync(pki(site, 'minions_pre', 'old*'), good);
});

fileFault('minion-key-denied', 'another key was offered for an id', (site) => {
  writeFileSync(pki(site, 'minions_denied', 'web1'), good);
});

fileFault('minion-key-pending', 'a key has waited for eight days', (site) => {
  const file = pki(site, 'minions_pre', 'new1');
  writeFileSync(file, good);
  age(file, 8 * 24 * hourMs);
});

fault('clock-behind', 'files are of an hour that has not come yet', async () => ({
  now: () => Date.now() - hourMs,
}));

fault('clock-behind', 'the latest job is of another century', async ({ config }) => {
  const store = await openEmbeddedStore({ directory: `${config.stateDir}/store` });
  const key = ['jobs', '21990101000000000000'];
  await store.write([{ op: 'put', key, value: new Uint8Array(1) }]);
  await store.close();
  return undefined;
});

fault('file-limit', 'too few files may be open', async ({ root }) => {
  mkdirSync(path.join(root, 'proc/self'), { recursive: true });
  const limits = 'Limit  Soft Limit  Hard Limit  Units\nMax open files  256  4096  files\n';
  writeFileSync(path.join(root, 'proc/self/limits'), limits);
  return { procDirectory: path.join(root, 'proc') };
});

fault('localclient-enabled', "Salt's own clients are served", async ({ config }) => {
  mkdirSync(path.join(config.stateDir, 'localclient'), { recursive: true, mode: 0o700 });
  const file = path.join(config.stateDir, 'localclient', 'master');
  writeFileSync(file, 'ret_port: 4507\n', { mode: 0o600 });
  return undefined;
});

fault('node-version', 'Node is too old', async () => ({ nodeVersion: '20.9.0' }));

fault('sha1-refused', 'the system forbids SHA-1', async () => ({ canSignSha1: () => false }));

fault('disk-full', 'the disk has little room', async () => ({
  diskOf: async () => ({ ...plenty, freeBytes: 1e6 }),
}));

fault('inodes-full', 'the disk has few inodes', async () => ({
  diskOf: async () => ({ ...plenty, freeInodes: 100 }),
}));

fault('check-failed', 'the disk cannot be asked', async () => ({
  diskOf: () => Promise.reject(new Error('no such device')),
}));

fault('store-locked', 'a process has the store and does not answer', async ({ config }, t) => {
  const store = await openEmbeddedStore({ directory: `${config.stateDir}/store` });
  t.teardown(() => store.close());
  return undefined;
});

fileFault('store-corrupt', 'the store is overwritten', ({ config }) => {
  writeFileSync(path.join(config.stateDir, 'store', 'data.mdb'), 'x'.repeat(4096));
});

fault('store-version', 'the store has another layout', async ({ config }) => {
  const tables = openLmdbTables(`${config.stateDir}/store`);
  await tables.transaction(() => tables.meta.put(encodeKey(['layout']), packNumber(99)));
  await tables.close();
  return undefined;
});

fileFault('store-unreadable', 'a directory is in the place of the data', ({ config }) => {
  const data = path.join(config.stateDir, 'store', 'data.mdb');
  rmSync(data);
  mkdirSync(path.join(data, 'x'), { recursive: true });
  chmodSync(data, 0o700);
});

fileFault('protocol-low', 'an accepted id has proved no version', (site) => {
  writeFileSync(pki(site, 'minions', 'old1'), good);
});

fileFault('open-mode', 'any key is taken for any id', (site) => {
  site.set({ open_mode: true, saltbridge: { confirm_open_mode: true } });
});

const tlsFile = (name: string): string =>
  fileURLToPath(new URL(`../../../test/fixtures/tls/${name}`, import.meta.url));

fault(
  'cluster-certificate',
  'a NATS server shows a certificate that ends soon',
  async (site, t) => {
    const [cert, key] = ['master.pem', 'master.key'].map((name) => readFileSync(tlsFile(name)));
    const server = createServer((socket) => {
      socket.on('error', () => {});
      socket.write('INFO {"tls_required":true}\r\n');
      new TLSSocket(socket, { isServer: true, cert, key }).on('error', () => {});
    });
    t.teardown(() => server.close());
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const cluster = { name: 'c', nats: [`tls://127.0.0.1:${port}`], member: 'a' };
    site.set({ saltbridge: { cluster } });
    t.deepEqual(await found(site), []);
    const end = Date.parse(new X509Certificate(cert ?? '').validTo);
    return { now: () => end - hourMs };
  },
);

test('certificates in the files of a cluster are checked, and the modes of its secrets', async (t) => {
  const site = await copyOf(t, template);
  const secret = path.join(site.root, 'nats.nk');
  writeFileSync(secret, 'x', { mode: 0o640 });
  const files = { tls_ca: tlsFile('master.pem'), tls_cert: secret, nkey_file: secret };
  // No process listens there.
  const cluster = { name: 'c', nats: ['nats://127.0.0.1:1'], member: 'a', ...files };
  site.set({ saltbridge: { cluster } });
  t.deepEqual(await found(site), ['cluster-certificate', 'secret-readable']);
});

fileFault('reaction-powerless', 'no rule permits a reactor file anything', (site) => {
  site.set({ reactor: [{ 'salt/minion/*/start': ['/srv/reactor/start.sls'] }] });
});

fileFault('auto-accept', 'every new key is accepted', (site) => site.set({ auto_accept: true }));

fileFault('config-problem', 'an option is of another type', (site) => {
  site.set({ timeout: 'long' });
});

fileFault('config-warning', 'nobody has such an option', (site) => {
  site.set({ no_such_option: 1 });
});

fileFault('leftover-file', 'a process was killed while it wrote a key', (site) => {
  const file = pki(site, '.saltbridge-0.tmp');
  writeFileSync(file, good);
  age(file, hourMs);
});

fileFault('socket-path', 'the path of the socket is too long', (site) => {
  site.set({ saltbridge: { socket: `/${'x'.repeat(108)}` } });
});

fault('master-unreachable', 'something else answers on the local socket', async ({ config }, t) => {
  const server = createHttpServer((_request, response) => response.end('nonsense'));
  rmSync(config.socket, { force: true });
  await new Promise<void>((resolve) => server.listen(config.socket, resolve));
  t.teardown(() => server.close());
  return undefined;
});

planted.add('minion-needs-restart');
test('minion-needs-restart: a minion that does not connect again', async (t) => {
  const site = await copyOf(t, template);
  await start(t, site);
  const api = await site.openApi();
  const openApi = async () => ({
    ...api,
    minions: async () => [{ id: 'web1', isPresent: true, needsOwnRestart: true } as const],
  });
  t.deepEqual(await found({ ...site, openApi }), ['minion-needs-restart']);
});

for (const [code, what, figures] of [
  ['coordinator-away', 'etcd or ZooKeeper is away', { data_coordinator_connected: 0 }],
  ['outbox-dead', 'signals were given up', { 'outbox_signals dead': 2 }],
  ['outbox-slow', 'a signal waits for long', { outbox_oldest_seconds: 1000 }],
] as const) {
  planted.add(code);
  test(`${code}: ${what}`, async (t) => {
    const site = await copyOf(t, template);
    await start(t, site);
    const api = await site.openApi();
    const openApi = async () => ({
      ...api,
      status: async () => ({ ...(await api.status()), extensions: { bridge: figures } }),
    });
    t.deepEqual(await found({ ...site, openApi }), [code]);
  });
}

const ofCluster = [
  'cluster-alone',
  'cluster-clock',
  'cluster-log',
  'cluster-log-failing',
  'cluster-member-away',
  'cluster-stale',
];
for (const code of ofCluster) planted.add(code);
test('a fault of the cluster is reported about a running master', async (t) => {
  const site = await copyOf(t, template);
  await start(t, site);
  const api = await site.openApi();
  const cluster: ClusterStatus = {
    name: 'c',
    member: 'a',
    log: 'l',
    position: 7,
    hash: 'h',
    members: [
      { name: 'a', position: 7, isAlive: true, clockSkewMs: 0 },
      { name: 'b', position: 3, isAlive: false, clockSkewMs: 60_000 },
    ],
    isAlone: true,
    refusesWrites: true,
    isStale: true,
    isDraining: false,
    failingMs: 9000,
    repeatedEntries: 0,
    foreignEntries: 0,
    warnings: ['the log has 1 copies', 'nats-server 2.9.10 is older than 2.12'],
  };
  const openApi = async () => ({
    ...api,
    status: async () => ({ ...(await api.status()), cluster }),
  });
  t.deepEqual((await found({ ...site, openApi })).sort(), ofCluster);
  const { findings } = await runDoctor({ ...site, openApi, world: { diskOf: roomy } });
  t.is(findings.filter(({ code }) => code === 'cluster-log').length, cluster.warnings.length);
});

planted.add('version-differs');
test('version-differs: the running master is of another version', async (t) => {
  const site = await copyOf(t, template);
  await start(t, site);
  const api = await site.openApi();
  const openApi = async () => ({
    ...api,
    status: async () => ({ ...(await api.status()), version: '0.0.1' }),
  });
  t.deepEqual(await found({ ...site, openApi }), ['version-differs']);
});

test('a running master reports its limits, its ports and its pins', async (t) => {
  const site = await copyOf(t, template);
  const master = await start(t, site);
  const { pid, requestPort } = await master.status();
  // The port is in use by the master itself, which is not a fault.
  site.set({ ret_port: requestPort });
  const proc = path.join(site.root, 'proc');
  mkdirSync(path.join(proc, String(pid)), { recursive: true });
  writeFileSync(path.join(proc, String(pid), 'limits'), 'Max open files  9  9  files\n');
  t.deepEqual(await found(site, { procDirectory: proc }), ['file-limit']);
  await master.keys.unpin('web1');
  t.deepEqual(await found(site), ['protocol-low']);
});

test('a problem above several directories is reported once', async (t) => {
  const site = await copyOf(t, template);
  chmodSync(site.root, 0o777);
  const report = await runDoctor({ ...site, world: { diskOf: roomy } });
  t.deepEqual(
    report.findings.map(({ code, subject }) => [code, subject]),
    [['directory-writable', site.root]],
  );
});

test('all of several problems are found, errors first', async (t) => {
  const site = await copyOf(t, template);
  site.set({ auto_accept: true, timeout: 'long' });
  chmodSync(pki(site, 'master.pem'), 0o444);
  const report = await runDoctor({ ...site, world: { diskOf: roomy } });
  t.deepEqual(
    report.findings.map(({ code }) => code),
    ['config-problem', 'secret-readable', 'auto-accept'],
  );
});

test('every code has a test that causes it', (t) => {
  t.deepEqual([...planted].sort(), [...doctorCodes].sort());
});
