/** The connections that a master opens: for log-ins, to the servers that its operator named. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { createServer, type Server } from 'node:tls';
import test, { type ExecutionContext } from 'ava';
import { type EauthOptions, resolveMasterConfig } from '../../master/index.ts';
import { createBackends } from '../../master/users/backends.ts';
import { createKeystoneBackend } from '../../master/users/keystone.ts';

const credentials = { username: 'fred', password: 'planted-password' };
const unavailable = { code: 'ERR_EAUTH_UNAVAILABLE' } as const;
const signal = (): AbortSignal => AbortSignal.timeout(20_000);

/** A server that nobody vouches for: it keeps what it hears, and hangs up. */
async function startImpostor(
  t: ExecutionContext,
): Promise<{ readonly port: number; heard(): string }> {
  let heard = '';
  const server: Server = createServer(
    { cert: fixture('master.pem'), key: fixture('master.key') },
    (socket) => {
      socket.on('error', () => {});
      socket.on('data', (bytes) => {
        heard += bytes.toString('latin1');
        socket.destroy();
      });
    },
  );
  t.teardown(() => server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // it listens on a port
  return { port, heard: () => heard };
}

function fixture(name: string): Buffer {
  return readFileSync(new URL(`../../../test/fixtures/tls/${name}`, import.meta.url));
}

test('no password goes to a directory whose certificate does not hold', async (t) => {
  const { port, heard } = await startImpostor(t);
  const logIn = async (options: Partial<EauthOptions>): Promise<unknown> => {
    const config = resolveMasterConfig({
      externalAuth: { ldap: { fred: ['.*'] } },
      eauth: {
        ldapUri: `ldaps://127.0.0.1:${port}`,
        ldapBasedn: 'o=x',
        ldapBinddn: 'uid={{username}},o=x',
        ...options,
      },
    });
    return createBackends(config, Date.now).get('ldap')?.authenticate(credentials, signal());
  };
  await t.throwsAsync(logIn({}), unavailable);
  t.is(heard(), '');
  // Whoever says so in the configuration is taken at their word.
  await t.throwsAsync(logIn({ ldapNoVerify: true }), unavailable);
  t.regex(heard(), /planted-password/);
});

test('no password goes to a Keystone whose certificate does not hold', async (t) => {
  const { port, heard } = await startImpostor(t);
  const authUrl = `https://127.0.0.1:${port}/v3`;
  const keystone = createKeystoneBackend({ authUrl, domain: 'Default' });
  await t.throwsAsync(keystone.authenticate(credentials, signal()), unavailable);
  t.is(heard(), '');
});
