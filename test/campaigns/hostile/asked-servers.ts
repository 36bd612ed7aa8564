/**
 * The kinds of servers that the program asks. Each row names the files that send the requests,
 * makes the program ask, and has the honest answer, which the matrix spoils.
 */

import { mkdirSync, mkdtempSync, readFileSync } from 'node:fs';
import { Agent } from 'node:http';
import path from 'node:path';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { resolveMasterConfig } from '#config';
import { gitLimits } from '#config/git-options.ts';
import { defaultsOf } from '#config/schema.ts';
import { postJson } from '#edge/identity/post-json.ts';
import { readPart } from '#edge/link/read-part.ts';
import { createCloudReader, parseCloudOptions } from '#guests/cloud/cloud-options.ts';
import { EtcdGateway } from '#guests/data-spaces/etcd-gateway.ts';
import { ZookeeperConnection } from '#guests/data-spaces/zookeeper-connection.ts';
import { buffer, frame, int, long } from '#guests/data-spaces/zookeeper-records.ts';
import { startMetadataAgent } from '#guests/metadata-agent/metadata-agent.ts';
import { TokenValidator } from '#heat-bridge/openstack/token-validator.ts';
import { HandleTokenCache } from '#heat-bridge/transports/handle-tokens.ts';
import { deliverSignal, parseDestination } from '#heat-bridge/transports/transports.ts';
import { createSilentLogger } from '#master';
import { webhookReceiver } from '#master/events/export-receivers.ts';
import { createBackends } from '#master/users/backends.ts';
import { createKeystoneBackend } from '#master/users/keystone.ts';
import { createHttpClient } from '#runtime';
import { parseAllowedEndpoints } from '#runtime/allowed-endpoints.ts';
import { GitMirror } from '#salt/file-trees/git-mirror.ts';
import { extPillarHttp } from '#salt/pillar/ext-pillar-http.ts';
import { GitRepository } from '../../helpers/git-repository.ts';
import { send } from '../http-fuzz.ts';
import type { HostileSite } from './site.ts';
import type { HonestServer } from './spoiling-server.ts';

/** A server and its client, ready to be asked. */
interface OpenServer {
  readonly honest: HonestServer;
  /** Makes the program ask. Rejects if the program does not accept the answer. */
  readonly ask: () => Promise<unknown>;
}

/** A kind of server that the program asks. */
interface AskedServer {
  /** Source files that send the requests. */
  readonly files: readonly string[];
  /** Fields of the honest body that get hostile values. Default: none, the server has no HTTP. */
  readonly fields?: readonly string[];
  readonly open: (site: HostileSite) => Promise<OpenServer>;
}

/** Time limit of the clients whose limit is an option, in milliseconds. */
const timeoutMs = 1_000;
const never = new AbortController().signal;
const log = createSilentLogger();

/** Source files that can open a connection, and the reason why the matrix does not spoil answers. */
export const notSpoiled: Readonly<Record<string, string>> = {
  'cli/commands/start-daemon.ts': 'starts the program itself',
  'cli/demo.ts': 'a demonstration, which asks its own master',
  'client/connection.ts':
    'asks the socket of a master on the same machine, or a member of a cluster',
  'cluster/log/jetstream-log.ts': 'the NATS servers of the cluster hold the state of the master',
  'cluster/log/rights.ts': 'the NATS servers of the cluster hold the state of the master',
  'edge/link/site-handshake.ts': 'test/edge/hostile.long.test.ts, with messages of the link',
  'guests/metadata-agent/namespace-listener.ts': 'only listens',
  'guests/metadata-agent/network-listeners.ts': 'only listens, with a program of its own',
  'guests/metadata-agent/relay.ts': 'copies bytes and reads none',
  'master/events/nats-receiver.ts': 'the client of NATS reads the answers',
  'master/rpc/server.ts': 'only tries whether a local socket has a server',
  'master/users/run-program.ts': 'runs a program of the operator',
  'server/diagnostics/cluster.ts': 'only connects, for the diagnosis of the operator',
  'server/process/service-manager.ts': 'runs systemctl',
  'store/directory.ts': 'asks whether another local process has the store',
};

export const askedServers: Readonly<Record<string, AskedServer>> = {
  'Keystone of users': {
    files: ['master/users/keystone.ts', 'runtime/http-client.ts'],
    fields: [
      'token',
      'token.user.name',
      'token.project',
      'token.roles',
      'token.expires_at',
      'groups.0.name',
      'groups',
    ],
    open: async ({ asked }) => {
      const keystone = createKeystoneBackend({ authUrl: `${asked.origin}/v3`, domain: 'Default' });
      const account = { username: 'fred', password: 'secret' };
      return {
        honest: openStack(asked.origin),
        ask: () => found(keystone.authenticate(account, never)),
      };
    },
  },
  'Keystone of services': {
    files: ['heat-bridge/openstack/keystone-tokens.ts'],
    fields: ['token', 'token.user', 'token.project.id', 'token.roles.0.name', 'token.expires_at'],
    open: async ({ asked }) => {
      const user = { name: 'service', domain: { name: 'Default' }, password: 'secret' };
      const project = { name: 'service', domain: { name: 'Default' } };
      const monotonic = (): number => performance.now();
      return {
        honest: openStack(asked.origin),
        ask: () => {
          const options = {
            url: `${asked.origin}/v3`,
            user,
            project,
            monotonic,
            closing: never,
            log,
          };
          return found(
            new TokenValidator({ ...options, ask: clientOf(asked.origin) }).validate('t'),
          );
        },
      };
    },
  },
  'Nova and Neutron': {
    files: ['guests/cloud/cloud-options.ts', 'guests/metadata-agent/agent-options.ts'],
    fields: [
      'token.catalog',
      'servers',
      'servers.0.security_groups',
      'servers_links.0',
      'ports',
      'ports.0.fixed_ips',
      'ports_links',
      'networks.0.name',
      'subnets.0.cidr',
    ],
    open: async ({ asked: { origin } }) => {
      const keystone = {
        url: `${origin}/v3`,
        username: 'a',
        password: 'b',
        project: 'c',
        timeout: 1,
      };
      const service = { url: origin };
      const section = { keystone, compute: service, network: service, timeout: timeoutMs / 1000 };
      return {
        honest: openStack(origin),
        ask: async () => {
          const reader = createCloudReader(parseCloudOptions(section, undefined), never);
          await reader.servers();
          await reader.portsAt(['net-A'], { address: '10.0.0.5' });
          await reader.networks();
        },
      };
    },
  },
  'Heat, Zaqar, Swift and webhooks': {
    files: ['heat-bridge/signals/open-signals.ts'],
    fields: [
      'token.catalog',
      'token.catalog.0.endpoints',
      'token.catalog.0.endpoints.0.url',
      'token.user',
      'error.message',
      'explanation',
    ],
    open: async ({ asked: { origin } }) => {
      const login = { auth_url: `${origin}/v3`, user_id: 'u', password: 'p', project_id: 'p1' };
      const url = `${origin}/heat/v1/p1/stacks/w/1/resources/handle/signal`;
      const key = `whsec_${Buffer.alloc(24, 7).toString('base64')}`;
      const destinations = [
        { ...login, alarm_url: url },
        { ...login, queue_id: 'q-1' },
        {
          alarm_url: `${origin}/v1/AUTH_a/b/c?temp_url_sig=f839d7e807c367e4&temp_url_expires=2147483586`,
        },
        { url: `${origin}/hook`, key },
      ].map(parseDestination);
      const ask = clientOf(origin);
      return {
        honest: openStack(origin),
        ask: async () => {
          const tokens = new HandleTokenCache().of('a');
          for (const destination of destinations) {
            const record = {
              id: 'r1',
              alias: 'h',
              minion: 'hostile',
              signal: { status: 'SUCCESS' },
            } as const;
            const outcome = await deliverSignal({
              ...{ destination, record, signalId: 's', failures: 0, now: Date.now, tokens },
              expiresAt: Date.now() + 1e6,
              ask: (request) => ask(request, never),
            });
            if (outcome.kind !== 'delivered') throw new Error(JSON.stringify(outcome));
          }
        },
      };
    },
  },
  'Nova behind the metadata agent': {
    files: ['guests/metadata-agent/metadata-agent.ts'],
    fields: [],
    open: async ({ asked: { origin }, directory, cleanup }) => {
      const socket = path.join(directory, 'asking-agent.sock');
      const agent = await startMetadataAgent({
        socket,
        nova: { url: origin, secret: 'guest-secret' },
        master: { url: origin, name: 'net-1', secret: 'the secret of the agent of these networks' },
        find: async () => ({ instance: 'instance-hostile', project: 'p-hostile' }),
        now: Date.now,
        log,
      });
      cleanup.teardown(() => agent.close());
      const headers = { 'x-neutron-network-id': 'net-A', 'x-forwarded-for': '10.0.0.5' };
      return {
        honest: { http: () => ({ body: 'content' }) },
        ask: async () => {
          for (const place of ['/openstack', '/saltbridge/v1/user-data']) {
            const request = { method: 'GET', path: place, headers };
            const answer = await send(socket, request, Buffer.of(), 120_000);
            if (answer?.status !== 200) throw new Error(`status ${answer?.status}`);
          }
        },
      };
    },
  },
  'identity provider': {
    files: ['master/users/jwt.ts'],
    fields: ['keys', 'keys.0', 'keys.0.kid', 'keys.0.x', 'keys.0.kty'],
    open: async ({ asked: { origin } }) => {
      const { publicKey, privateKey } = await generateKeyPair('ES256');
      const keys = [{ ...(await exportJWK(publicKey)), kid: 'k1', alg: 'ES256' }];
      const password = await new SignJWT({ name: 'fred' })
        .setProtectedHeader({ alg: 'ES256', kid: 'k1' })
        .setIssuer('https://idp.test')
        .setAudience('salt')
        .setExpirationTime('10d')
        .sign(privateKey);
      const jwt = {
        ...{ '^issuer': 'https://idp.test', '^audience': 'salt', '^algorithms': ['ES256'] },
        ...{ '^jwks_uri': `${origin}/keys`, '^user_claim': 'name', fred: ['.*'] },
      };
      const config = resolveMasterConfig({ externalAuth: { jwt } });
      return {
        honest: { http: () => ({ body: { keys } }) },
        ask: () => {
          const backend = createBackends(config, Date.now).get('jwt');
          return found(backend?.authenticate({ username: 'fred', password }, never));
        },
      };
    },
  },
  'LDAP directory': {
    files: ['master/users/ldap-answers.ts', 'master/users/ldap.ts'],
    open: async ({ asked: { rawPort } }) => {
      const config = resolveMasterConfig({
        externalAuth: { ldap: { fred: ['.*'] } },
        eauth: {
          ...{ ldapServer: '127.0.0.1', ldapPort: rawPort, ldapAnonymous: true },
          ...{ ldapFilter: '(uid={{ username }})', ldapBasedn: 'dc=x' },
        },
      });
      const account = { username: 'fred', password: 'secret' };
      return {
        honest: { raw: ldapAnswer },
        ask: () =>
          found(createBackends(config, Date.now).get('ldap')?.authenticate(account, never)),
      };
    },
  },
  etcd: {
    files: ['guests/data-spaces/etcd-gateway.ts'],
    fields: [
      'kvs',
      'kvs.0.key',
      'kvs.0.value',
      'kvs.0.version',
      'result',
      'result.events',
      'header',
      'token',
    ],
    open: async ({ asked: { origin } }) => ({
      honest: {
        http: ({ path: place }) => ({
          body: place.includes('authenticate')
            ? { token: 't' }
            : {
                header: {},
                kvs: [{ key: 'YQ==', value: 'YQ==', version: '1' }],
                result: { events: [] },
              },
        }),
      },
      ask: async () => {
        const user = { name: 'a', password: 'b' };
        const gateway = new EtcdGateway({
          endpoints: [origin],
          readAccess: async () => ({ user }),
          timeoutMs,
        });
        try {
          await gateway.call('/v3/kv/range', {});
          const end = new AbortController();
          let count = 0;
          for await (const _ of gateway.stream('/v3/watch', {}, end.signal)) {
            count += 1;
            if (count === 1_000) end.abort();
          }
        } finally {
          await gateway.close();
        }
      },
    }),
  },
  ZooKeeper: {
    files: ['guests/data-spaces/zookeeper-connection.ts'],
    open: async ({ asked: { rawPort } }) => ({
      honest: { raw: zookeeperAnswer },
      ask: async () => {
        const options = { tls: undefined, credentials: undefined, timeoutMs, onChange: () => {} };
        const connection = await ZookeeperConnection.open({
          ...options,
          host: '127.0.0.1',
          port: rawPort,
        });
        try {
          await connection.getData('/a');
          await connection.children('/a');
        } finally {
          connection.close();
        }
      },
    }),
  },
  'centre of a site': {
    files: ['edge/identity/post-json.ts', 'edge/link/read-part.ts'],
    fields: ['a'],
    open: async ({ asked: { origin }, cleanup }) => {
      const agent = new Agent();
      cleanup.teardown(() => agent.destroy());
      return {
        honest: { http: () => ({ body: { a: 1 } }) },
        ask: async () => {
          const range = { from: 0, maxBytes: 1_000_000 };
          const url = `${origin}/site/v1/packs/a/0`;
          const part = readPart({
            url,
            agent,
            ca: undefined,
            range,
            stallMs: timeoutMs,
            signal: never,
          });
          for await (const _ of part);
          await postJson(`${origin}/site/v1/join`, {}, undefined);
        },
      };
    },
  },
  'receiver of events': {
    files: ['master/events/export-receivers.ts'],
    fields: [],
    open: async ({ asked: { origin } }) => ({
      honest: { http: () => ({ body: 'thanks' }) },
      ask: () =>
        webhookReceiver({ name: 'a', webhook: `${origin}/hook`, timeout: 1 }).send([], never),
    }),
  },
  'service of pillar': {
    files: ['salt/pillar/ext-pillar-http.ts'],
    fields: ['a', 'b.0'],
    open: async ({ asked: { origin } }) => ({
      honest: { http: () => ({ body: { a: 1, b: [2] } }) },
      ask: () => {
        const hosts = [new URL(origin).host];
        const url = `${origin}/pillar/{id}`;
        const pillar = extPillarHttp({ url, hosts, timeoutMs, allowsPlainHttp: true });
        return pillar.provide({ id: 'hostile', saltenv: 'base', pillarenv: 'base' });
      },
    }),
  },
  'services of http.query': {
    files: ['salt/runners/http-runner.ts'],
    fields: ['a', 'b.0'],
    open: async ({ asked: { origin }, port, sessions }) => ({
      honest: { http: () => ({ body: { a: 1, b: [2] } }) },
      ask: async () => {
        const kwarg = {
          decode: true,
          decode_type: 'json',
          text: true,
          headers: true,
          status: true,
        };
        const body = { client: 'runner', fun: 'http.query', arg: [`${origin}/x`], kwarg };
        const headers = {
          ...{ 'content-type': 'application/json', accept: 'application/json' },
          'x-auth-token': sessions.admin ?? '',
        };
        const request = { method: 'POST', path: '/', headers };
        const answer = await send(port, request, Buffer.from(JSON.stringify(body)), 120_000);
        if (!/"dict"/.test(answer?.text ?? ''))
          throw new Error(`${answer?.status}: ${answer?.text}`);
      },
    }),
  },
  'git remote': {
    files: ['salt/file-trees/git-program.ts'],
    fields: [],
    open: async ({ asked: { origin }, directory, cleanup }) => {
      const repository = new GitRepository(path.join(directory, 'remote'));
      repository.commit({ a: 'one' });
      repository.git('update-server-info');
      const closing = new AbortController();
      cleanup.teardown(() => closing.abort());
      const limits = {
        ...defaultsOf(gitLimits),
        protocols: ['http' as const],
        timeout: 5,
        // Git limits the content. In chunks of one byte, the content takes six times as many bytes.
        maxBytes: 8_388_608,
      };
      const access = {
        ...{ url: `${origin}/x`, user: 'me', password: 'secret', privkey: '', sslVerify: true },
        ...{ refspecs: ['+refs/heads/*:refs/remotes/origin/*'], updateInterval: 60 },
      };
      return {
        honest: {
          http: ({ path: place }) => {
            const [file = ''] = place.slice('/x/'.length).split('?');
            return contentOf(repository.path('.git', path.normalize(file)));
          },
        },
        ask: async () => {
          mkdirSync(path.join(directory, 'mirrors'), { recursive: true });
          const own = mkdtempSync(path.join(directory, 'mirrors', 'm'));
          const options = { access, limits, directory: own, log, closing: closing.signal };
          const mirror = await GitMirror.open(options);
          mirror.want(() => true);
          await mirror.update();
        },
      };
    },
  },
};

function contentOf(file: string): { readonly status: number; readonly body: unknown } {
  try {
    return { status: 200, body: readFileSync(file) };
  } catch {
    return { status: 404, body: '' };
  }
}

function clientOf(origin: string) {
  const endpoints = parseAllowedEndpoints([{ url: origin }]);
  return createHttpClient({ endpoints, timeoutMs, resolve: async () => [] });
}

async function found<T>(result: Promise<T | undefined> | undefined): Promise<T> {
  const value = await result;
  if (value === undefined) throw new Error('nothing was found');
  return value;
}

/** Answers like Keystone, Nova, Neutron, Heat, Zaqar and Swift. */
function openStack(origin: string): HonestServer {
  const named = { id: 'a1', name: 'fred', domain: { id: 'default', name: 'Default' } };
  const endpoints = [
    { interface: 'public', region_id: 'r', region: 'r', url: `${origin}/heat/v1/p1` },
  ];
  const catalog = ['orchestration', 'messaging'].map((type) => ({ type, endpoints }));
  const body = {
    token: {
      ...{ user: named, project: named, roles: [{ name: 'member' }], catalog },
      expires_at: '2099-01-01T00:00:00.000000Z',
    },
    groups: [{ name: 'g' }],
    servers: [{ id: 's1', tenant_id: 'p1', name: 'web' }],
    ports: [],
    networks: [{ id: 'n1', name: 'net' }],
    subnets: [{ id: 'n1', cidr: '10.0.0.0/8' }],
    security_groups: [],
  };
  const headers = { 'x-subject-token': 'gAAAAA' };
  return {
    http: ({ method, path: place }) => {
      if (method === 'HEAD') return { status: 404, body: '' };
      const isLogIn = method === 'POST' && place.includes('/auth/tokens');
      const isNew = isLogIn || place.includes('/messages') || method === 'PUT';
      return { status: isNew ? 201 : 200, headers, body };
    },
  };
}

/** Encodes an element of BER. */
function element(tag: number, ...content: readonly Buffer[]): Buffer {
  const bytes = Buffer.concat(content);
  return Buffer.concat([Buffer.from([tag, bytes.length]), bytes]);
}

/** Answers a bind or a search of LDAP. */
function ldapAnswer(request: Buffer): Buffer {
  const [id = 0, operation] = [request[4], request[5]];
  const octets = (text: string): Buffer => element(0x04, Buffer.from(text));
  const message = (tag: number, ...content: readonly Buffer[]): Buffer =>
    element(0x30, element(0x02, Buffer.from([id])), element(tag, ...content));
  const success = [element(0x0a, Buffer.from([0])), octets(''), octets('')];
  if (operation === 0x60) return message(0x61, ...success);
  if (operation !== 0x63) return Buffer.of();
  const attribute = element(0x30, octets('uid'), element(0x31, octets('fred')));
  const entry = message(0x64, octets('uid=fred,dc=x'), element(0x30, attribute));
  return Buffer.concat([entry, message(0x65, ...success)]);
}

/** Answers the first message of a session of ZooKeeper, or a request. */
function zookeeperAnswer(request: Buffer): Buffer {
  const operation = request.length < 12 ? 0 : request.readInt32BE(8);
  if (operation === 0) return frame([int(0), int(15_000), long(), buffer(Buffer.alloc(16))]);
  const head = [int(request.readInt32BE(4)), long(), int(0)];
  // A list of one name, or data and its metadata.
  if (operation === 8) return frame([...head, int(1), buffer(Buffer.from('a'))]);
  return frame([...head, buffer(Buffer.from('data')), Buffer.alloc(68)]);
}
