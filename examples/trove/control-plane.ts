/** What the operator of the example has: a master with catalog, policy and minion modules. */
import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { freePort } from '../../bench/free-port.ts';
import { createLogger, loadSaltConfig } from '../../master/index.ts';
import { type MasterServer, serve } from '../../server/index.ts';
import type { CloudDescription } from '../heat/cloud.ts';

/** Of this example, in the sources. */
export const sources: string = fileURLToPath(new URL('../../../examples/trove', import.meta.url));

export interface ControlPlane {
  readonly server: MasterServer;
  readonly directory: string;
  readonly url: string;
  /** Of the HTTP API, PEM. */
  readonly certificate: string;
  /** By name, of the services that log in. */
  readonly passwords: Readonly<Record<'blog' | 'shop', string>>;
  close(): Promise<void>;
}

/**
 * Starts a master in a directory of its own, as `saltbridge master` would with these files.
 * @param cloud - whose tokens services may send. Default: none
 */
export async function startControlPlane(cloud?: CloudDescription): Promise<ControlPlane> {
  const directory = mkdtempSync(path.join(tmpdir(), 'sb-'));
  const at = (name: string): string => path.join(directory, name);
  const passwords = { shop: newPassword(), blog: newPassword() };
  const users = Object.entries(passwords).map(
    ([name, it]) => `${name}:${createHash('sha256').update(it).digest('hex')}\n`,
  );
  writeFileSync(at('users'), users.join(''), { mode: 0o600 });
  await makeCertificate(directory);
  mkdirSync(at('s'), { mode: 0o700 });
  cpSync(path.join(sources, 'master.d'), at('master.d'), { recursive: true });
  const [requestPort, publishPort, port] = [await freePort(), await freePort(), await freePort()];
  const url = `https://127.0.0.1:${port}`;
  const options = {
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
        shop: ['test.ping'],
        blog: ['test.ping'],
      },
    },
    saltbridge: {
      state_dir: at('state'),
      api: { host: '127.0.0.1', port, ssl_crt: at('api.crt'), ssl_key: at('api.key') },
      bridge: {
        catalog: [path.join(sources, 'catalog')],
        enroll: { masters: ['127.0.0.1'], url },
        ...(cloud === undefined ? {} : { keystone: keystoneSection(cloud) }),
      },
    },
  };
  writeFileSync(at('master'), JSON.stringify(options));
  const server = await serve({
    config: await loadSaltConfig(directory),
    logger: createLogger('error', process.stderr),
    service: 'trove',
  });
  return {
    server,
    directory,
    url,
    certificate: at('api.crt'),
    passwords,
    close: async () => {
      await server.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** The bridge's own log-in, which validates tokens. */
function keystoneSection({ keystone: url, users }: CloudDescription): object {
  return { url, username: 'admin', password: users.admin.password, project: 'admin' };
}

export function newPassword(): string {
  return randomBytes(18).toString('base64url');
}

async function makeCertificate(directory: string): Promise<void> {
  const at = (name: string): string => path.join(directory, name);
  await promisify(execFile)('openssl', [
    ...['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=127.0.0.1'],
    ...['-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', at('api.key'), '-out', at('api.crt')],
  ]);
}
