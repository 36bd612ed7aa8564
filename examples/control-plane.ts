/** Starts the master of an example, configured by files or by options. */
import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import type { PolicyRule } from '#acl';
import { loadSaltConfig, resolveMasterConfig } from '#config';
import type { Bridge } from '#guests';
import { createLogger, type Master } from '#master';
import { createSaltApi } from '#salt-api';
import { createMaster, type MasterServer, serve } from '#server';
import { freePort } from '../bench/free-port.ts';
import type { CloudDescription } from './heat/cloud.ts';

/** Properties of an example's master. */
export interface ControlPlaneOptions {
  /** Directory with `master.d`, and `catalog` and `files` if the example needs them. */
  readonly sources: string;
  /** Names of the services that log in to the HTTP API. */
  readonly users: readonly string[];
  /** Cloud whose Keystone tokens services may send. Default: none. */
  readonly cloud?: CloudDescription | undefined;
  /** Additional options of `saltbridge: bridge:`. */
  readonly bridge?: object;
  /** Addresses in the certificate of the HTTP API, besides 127.0.0.1. Default: none. */
  readonly addresses?: readonly string[];
}

/** Properties of an example with a program that imports the library. */
export interface ServiceOptions extends ControlPlaneOptions {
  /** Name of the service that the program represents. */
  readonly service: string;
}

/**
 * Configuration directory of a master, and the data that clients and minions need to connect to it.
 */
export interface Site {
  /** Configuration directory, for `saltbridge master -c`. */
  readonly directory: string;
  readonly requestPort: number;
  readonly url: string;
  /** Certificate of the HTTP API, in PEM. */
  readonly certificate: string;
  /** Passwords of the services that log in, by name. */
  readonly passwords: ReadonlyMap<string, string>;
}

export interface ControlPlane extends Site {
  readonly server: MasterServer;
  close(): Promise<void>;
}

/**
 * Starts a master with its files in a new directory, in the same way as `saltbridge master` with
 * these files.
 */
export async function startControlPlane({
  service,
  ...options
}: ServiceOptions): Promise<ControlPlane> {
  const site = await writeSite(options);
  const server = await serve({
    config: await loadSaltConfig(site.directory),
    logger: createLogger('error', process.stderr),
    service,
  });
  return {
    ...site,
    server,
    close: async () => {
      await server.close();
      removeSite(site);
    },
  };
}

/** Writes the configuration of a master with a new directory and free ports. */
export async function writeSite(options: ControlPlaneOptions): Promise<Site> {
  const { sources, users, cloud, bridge = {}, addresses = [] } = options;
  const directory = mkdtempSync(path.join(tmpdir(), 'sb-'));
  const at = (name: string): string => path.join(directory, name);
  const passwords = new Map(users.map((name) => [name, newPassword()]));
  const lines = Array.from(
    passwords,
    ([name, it]) => `${name}:${createHash('sha256').update(it).digest('hex')}\n`,
  );
  writeFileSync(at('users'), lines.join(''), { mode: 0o600 });
  await makeCertificate(directory, ['127.0.0.1', ...addresses]);
  mkdirSync(at('s'), { mode: 0o700 });
  cpSync(path.join(sources, 'master.d'), at('master.d'), { recursive: true });
  const [requestPort, publishPort, port] = [await freePort(), await freePort(), await freePort()];
  const url = `https://127.0.0.1:${port}`;
  const config = {
    interface: '127.0.0.1',
    ret_port: requestPort,
    publish_port: publishPort,
    root_dir: directory,
    pki_dir: at('pki'),
    cachedir: at('cache'),
    sock_dir: at('s'),
    file_roots: { base: [path.join(sources, 'files')] },
    external_auth: {
      file: {
        '^filename': at('users'),
        '^filetype': 'text',
        '^hashtype': 'sha256',
        ...Object.fromEntries(users.map((name) => [name, ['test.ping']])),
      },
    },
    saltbridge: {
      state_dir: at('state'),
      api: { host: '127.0.0.1', port, ssl_crt: at('api.crt'), ssl_key: at('api.key') },
      bridge: {
        ...(existsSync(path.join(sources, 'catalog'))
          ? { catalog: [path.join(sources, 'catalog')] }
          : {}),
        enroll: { masters: ['127.0.0.1'], url },
        ...(cloud === undefined ? {} : { keystone: keystoneSection(cloud) }),
        ...bridge,
      },
    },
  };
  writeFileSync(at('master'), JSON.stringify(config));
  return { directory, requestPort, url, certificate: at('api.crt'), passwords };
}

export function removeSite({ directory }: Pick<Site, 'directory'>): void {
  rmSync(directory, { recursive: true, force: true });
}

/** Ports of a master for its minions. */
export interface SaltPorts {
  readonly requestPort: number;
  readonly publishPort: number;
}

export async function freeSaltPorts(): Promise<SaltPorts> {
  return { requestPort: await freePort(), publishPort: await freePort() };
}

export interface EmbeddedMasterOptions {
  /**
   * Directory of the master's keys, caches and state. It may contain those of an earlier master.
   */
  readonly directory: string;
  readonly ports: SaltPorts;
  /** Port of the HTTP API. Default: a free port. */
  readonly apiPort?: number;
  readonly bridge: Bridge;
  /** Rules in addition to the one that permits all minions to send signals. */
  readonly rules: readonly PolicyRule[];
  /** Additional options of the master. */
  readonly options: NonNullable<Parameters<typeof resolveMasterConfig>[0]>;
}

/** A master with a bridge in this process. */
export interface EmbeddedMaster {
  readonly master: Master;
  readonly bridge: Bridge;
  /** URL of the HTTP API. */
  readonly url: string;
  /** Closes the master. Its directory is not removed. */
  close(): Promise<void>;
}

/** Starts a master whose program passes options instead of configuration files. */
export async function startEmbeddedMaster({
  directory,
  ports,
  apiPort = 0,
  bridge,
  rules,
  options,
}: EmbeddedMasterOptions): Promise<EmbeddedMaster> {
  const at = (name: string): string => path.join(directory, name);
  const master = createMaster({
    config: resolveMasterConfig({
      interface: '127.0.0.1',
      retPort: ports.requestPort,
      publishPort: ports.publishPort,
      pkiDir: at('pki'),
      cachedir: at('cache'),
      sockDir: at('s'),
      stateDir: at('state'),
      acl: {
        mode: 'enforce',
        signals: [{ tag: 'heat/*', minions: '*' }],
        learnActions: [],
        recordData: false,
        rules,
      },
      ...options,
    }),
    logger: createLogger('error', process.stderr),
    extensions: [bridge],
  });
  await master.start();
  try {
    const own = { host: '127.0.0.1', port: apiPort, plugins: [bridge.http] };
    const api = await createSaltApi(master, own);
    const { port } = await api.listen();
    const close = async (): Promise<void> => {
      await api.close();
      await master.close();
    };
    return { master, bridge, url: `http://127.0.0.1:${port}`, close };
  } catch (error) {
    await master.close();
    throw error;
  }
}

/**
 * Returns the section `keystone`. It contains the credentials with which the bridge validates
 * tokens.
 */
function keystoneSection({ keystone: url, users }: CloudDescription): object {
  return { url, username: 'admin', password: users.admin.password, project: 'admin' };
}

export function newPassword(): string {
  return randomBytes(18).toString('base64url');
}

async function makeCertificate(directory: string, addresses: readonly string[]): Promise<void> {
  const at = (name: string): string => path.join(directory, name);
  await promisify(execFile)('openssl', [
    ...['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=127.0.0.1'],
    ...['-addext', `subjectAltName=${addresses.map((it) => `IP:${it}`).join()}`],
    ...['-keyout', at('api.key'), '-out', at('api.crt')],
  ]);
}
