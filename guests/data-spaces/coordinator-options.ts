/**
 * Options in the section `saltbridge: bridge: guests: data: coordinator:`, and the coordinator
 * that they select.
 */

import { readFile } from 'node:fs/promises';
import path from 'node:path';
import Type, { type Static, type TObject } from 'typebox';
import { BridgeOptionsError, parseSection } from '#heat-bridge';
import type { ExtensionHost, SharedArea } from '#master';
import { openSealedKey } from '../sealed-key.ts';
import { authenticateValues } from './authenticated-coordinator.ts';
import { type Coordinator, createStoreCoordinator } from './coordinator.ts';
import { createEtcdCoordinator } from './etcd-coordinator.ts';
import { type EtcdAccess, EtcdGateway } from './etcd-gateway.ts';
import { type ZookeeperAccess, ZookeeperCoordinator } from './zookeeper-coordinator.ts';

const strict = { additionalProperties: false };
const File = Type.String({ minLength: 1, maxLength: 4096 });
/** Path below which values are stored. Default: `/saltbridge/data`. */
const Root = Type.String({
  pattern: '^(/[A-Za-z0-9][A-Za-z0-9._-]*)+$',
  maxLength: 255,
  description: 'a path such as /saltbridge/data',
});
const Seconds = Type.Number({ minimum: 0.1, maximum: 60 });
/** Options with the paths of PEM files for TLS. */
const tlsFiles = {
  ca_file: Type.Optional(File),
  cert_file: Type.Optional(File),
  key_file: Type.Optional(File),
};

const Etcd = Type.Object(
  {
    endpoints: Type.Array(
      Type.String({
        pattern: '^https?://[^/@?#]+/?$',
        maxLength: 300,
        description: 'a URL such as https://etcd.example.org:2379',
      }),
      { minItems: 1, maxItems: 16 },
    ),
    prefix: Type.Optional(Root),
    ...tlsFiles,
    username: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
    password_file: Type.Optional(File),
    timeout: Type.Optional(Seconds),
  },
  strict,
);

const Zookeeper = Type.Object(
  {
    servers: Type.Array(
      Type.String({
        pattern: '^[A-Za-z0-9.-]+(:[0-9]{1,5})?$',
        maxLength: 260,
        description: 'a name with a port, such as zk1.example.org:2181',
      }),
      {
        minItems: 1,
        maxItems: 16,
      },
    ),
    path: Type.Optional(Root),
    /** Whether to use TLS. Default: true if `ca_file` or `cert_file` is set. */
    tls: Type.Optional(Type.Boolean()),
    ...tlsFiles,
    /** File with one line, `user:password`. */
    credentials_file: Type.Optional(File),
    timeout: Type.Optional(Seconds),
  },
  strict,
);

/**
 * Options of the external server that stores values: etcd or ZooKeeper. Without these options, the
 * store of the master contains the values.
 */
const CoordinatorSection = Type.Object(
  { etcd: Type.Optional(Etcd), zookeeper: Type.Optional(Zookeeper) },
  {
    ...strict,
    minProperties: 1,
    maxProperties: 1,
    description: 'a map with either etcd or zookeeper',
  },
);

/** Options of the external server that stores values: etcd or ZooKeeper. */
export type CoordinatorOptions = Static<typeof CoordinatorSection>;

type EtcdOptions = Static<typeof Etcd>;
type ZookeeperOptions = Static<typeof Zookeeper>;
type TlsFiles = Static<TObject<typeof tlsFiles>>;

const sectionKey = 'saltbridge:bridge:guests:data:coordinator';
const defaultRoot = '/saltbridge/data';
const defaultTimeout = 5;
const keyRow = ['guests', 'values-key'];

/**
 * Validates options that depend on each other.
 * @throws BridgeError ERR_BRIDGE_OPTIONS
 */
function checkCoordinatorOptions({ etcd, zookeeper }: CoordinatorOptions): void {
  if (etcd !== undefined) checkEtcd(etcd);
  if (zookeeper === undefined) return;
  checkTls('zookeeper', zookeeper);
  const { servers, credentials_file: credentials } = zookeeper;
  const clear = servers.map(addressOf).find(({ host }) => !loopback.test(host));
  if (credentials !== undefined && !usesTls(zookeeper) && clear !== undefined) {
    refuse(
      'zookeeper:servers',
      `tls is required for ${clear.host}, because the password would be sent without encryption`,
    );
  }
}

function checkEtcd(options: EtcdOptions): void {
  checkTls('etcd', options);
  const { endpoints, username, password_file: password } = options;
  if ((username === undefined) !== (password === undefined)) {
    refuse('etcd:username', 'username and password_file must be set together');
  }
  const clear = endpoints.find(
    (url) => url.startsWith('http:') && !loopback.test(new URL(url).hostname),
  );
  if (username !== undefined && clear !== undefined) {
    refuse(
      'etcd:endpoints',
      `https is required for ${clear}, because the password would be sent without encryption`,
    );
  }
}

function checkTls(kind: string, { cert_file: cert, key_file: key }: TlsFiles): void {
  if ((cert === undefined) === (key === undefined)) return;
  refuse(`${kind}:cert_file`, 'cert_file and key_file must be set together');
}

function refuse(name: string, problem: string): never {
  throw new BridgeOptionsError([{ key: `${sectionKey}:${name}`, problem }]);
}

function usesTls({ tls, ca_file: ca, cert_file: cert }: ZookeeperOptions): boolean {
  return tls ?? (ca !== undefined || cert !== undefined);
}

function addressOf(server: string): { readonly host: string; readonly port: number } {
  const [host = '', port = '2181'] = server.split(':');
  return { host, port: Number(port) };
}

/** Host names and addresses of this machine. */
const loopback = /^(localhost|127\.[0-9.]+|\[::1\])$/;

export interface CoordinatorHost extends Pick<ExtensionHost, 'logger'> {
  readonly config: Pick<ExtensionHost['config'], 'confFile'>;
  readonly shared: SharedArea;
}

/**
 * Opens the coordinator. If its server is unavailable, the coordinator reconnects in the
 * background.
 * @throws BridgeError ERR_BRIDGE_OPTIONS if a file cannot be read
 */
export async function openCoordinator(
  options: CoordinatorOptions,
  { config, logger, shared: state }: CoordinatorHost,
): Promise<Coordinator> {
  const log = logger.child({ component: 'coordinator' });
  const server = await openServer(options, path.dirname(config.confFile), log);
  if (server === undefined) return createStoreCoordinator(state);
  return authenticateValues(server, await openSealedKey(state, keyRow), log);
}

/**
 * Opens the configured server, or returns `undefined` if there is none.
 * @throws BridgeError ERR_BRIDGE_OPTIONS
 */
async function openServer(
  { etcd, zookeeper }: CoordinatorOptions,
  folder: string,
  log: Parameters<typeof authenticateValues>[2],
): Promise<Coordinator | undefined> {
  if (etcd !== undefined) {
    const readAccess = (): Promise<EtcdAccess> => readEtcdAccess(etcd, folder);
    await tryFiles('etcd', readAccess);
    const timeoutMs = (etcd.timeout ?? defaultTimeout) * 1000;
    const gateway = new EtcdGateway({ endpoints: etcd.endpoints, readAccess, timeoutMs });
    return createEtcdCoordinator({ gateway, prefix: `${etcd.prefix ?? defaultRoot}/`, log });
  }
  if (zookeeper !== undefined) {
    const readAccess = (): Promise<ZookeeperAccess> => readZookeeperAccess(zookeeper, folder);
    await tryFiles('zookeeper', readAccess);
    return new ZookeeperCoordinator({
      servers: zookeeper.servers.map(addressOf),
      root: zookeeper.path ?? defaultRoot,
      readAccess,
      timeoutMs: (zookeeper.timeout ?? defaultTimeout) * 1000,
      log,
    });
  }
  return undefined;
}

/**
 * Reads the files at the start, so that the master does not start if they are unreadable. Later
 * read errors are only logged.
 */
async function tryFiles(kind: string, read: () => Promise<unknown>): Promise<void> {
  try {
    await read();
  } catch (cause) {
    const problem = cause instanceof Error ? cause.message : 'unreadable';
    throw new BridgeOptionsError([{ key: `${sectionKey}:${kind}`, problem }], { cause });
  }
}

async function readEtcdAccess(options: EtcdOptions, folder: string): Promise<EtcdAccess> {
  const tls = await readTls(options, folder);
  const { username: name, password_file: file } = options;
  if (name === undefined || file === undefined) return { tls };
  return { tls, user: { name, password: await readLine(path.resolve(folder, file)) } };
}

async function readZookeeperAccess(
  options: ZookeeperOptions,
  folder: string,
): Promise<ZookeeperAccess> {
  const { credentials_file: file } = options;
  return {
    tls: usesTls(options) ? await readTls(options, folder) : undefined,
    credentials: file === undefined ? undefined : await readLine(path.resolve(folder, file)),
  };
}

async function readTls(
  { ca_file: ca, cert_file: cert, key_file: key }: TlsFiles,
  folder: string,
): Promise<{ ca?: Buffer; cert?: Buffer; key?: Buffer }> {
  const files = Object.entries({ ca, cert, key });
  const read = await Promise.all(
    files.map(async ([name, file]) =>
      file === undefined ? [] : [[name, await readFile(path.resolve(folder, file))] as const],
    ),
  );
  return Object.fromEntries(read.flat());
}

async function readLine(file: string): Promise<string> {
  const line = (await readFile(file, 'utf8')).trim();
  if (line === '')
    throw new Error(`the file ${file} is empty; write the secret into it as one line of text`);
  return line;
}

const Section = Type.Object(
  {
    bytes_per_stack: Type.Optional(Type.Integer({ minimum: 1024, maximum: 2 ** 40 })),
    keys_per_stack: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000 })),
    coordinator: Type.Optional(CoordinatorSection),
  },
  { additionalProperties: false },
);

/**
 * Parses the options of data spaces.
 * @throws BridgeError ERR_BRIDGE_OPTIONS
 */
export function parseDataOptions(given: unknown) {
  const data = parseSection('bridge:guests:data', Section, given ?? {});
  const { coordinator = {} } = data;
  checkCoordinatorOptions(coordinator);
  return {
    /** Maximum total size of the values of one data space, in bytes. Default: 64 MiB. */
    bytesPerStack: data.bytes_per_stack ?? 67_108_864,
    /** Maximum number of values of one data space. Default: 10,000. */
    keysPerStack: data.keys_per_stack ?? 10_000,
    /** External server that stores the values. Default: the master's store. */
    coordinator,
  };
}
