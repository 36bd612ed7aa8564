/** Options of coordinators, and servers that do not speak the expected protocol. */

import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import test, { type ExecutionContext } from 'ava';
import { parseDataOptions } from '#guests/data-spaces/coordinator-options.ts';
import { createEtcdCoordinator } from '#guests/data-spaces/etcd-coordinator.ts';
import { EtcdGateway } from '#guests/data-spaces/etcd-gateway.ts';
import { ZookeeperConnection } from '#guests/data-spaces/zookeeper-connection.ts';

import { BridgeOptionsError } from '#heat-bridge';
import { within } from '../../helpers/deadline.ts';

/**
 * Returns the problem that is reported for a section `data: coordinator:`, or '' if there is none.
 */
function problemOf(coordinator: object): string {
  try {
    parseDataOptions({ coordinator });
    return '';
  } catch (error) {
    if (error instanceof BridgeOptionsError) return error.message;
    throw error;
  }
}

test('invalid options of a coordinator are refused, each with its key', (t) => {
  const endpoints = ['https://etcd.example.org:2379'];
  const account = { username: 'bridge', password_file: 'password' };
  t.is(problemOf({ etcd: { endpoints, ...account } }), '');
  t.is(problemOf({ etcd: { endpoints: ['http://127.0.0.1:2379'], ...account } }), '');
  t.is(problemOf({ etcd: { endpoints: ['http://etcd.example.org:2379'] } }), '');
  t.regex(
    problemOf({ etcd: { endpoints: ['http://etcd.example.org:2379'], ...account } }),
    /coordinator:etcd:endpoints: https is required for http:\/\/etcd.example.org:2379,/,
  );
  t.regex(problemOf({ etcd: { endpoints, username: 'bridge' } }), /etcd:username: username and/);
  t.regex(problemOf({ etcd: { endpoints, cert_file: 'c' } }), /etcd:cert_file: cert_file and/);
  t.regex(problemOf({ etcd: { endpoints, prefix: 'x/' } }), /data/);
  t.regex(problemOf({ etcd: { endpoints: ['etcd:2379'] } }), /data/);
  t.regex(problemOf({}), /data/);
  const servers = ['zk.example.org:2181'];
  t.is(problemOf({ zookeeper: { servers, tls: true, credentials_file: 'c' } }), '');
  t.is(problemOf({ zookeeper: { servers, ca_file: 'ca.pem', credentials_file: 'c' } }), '');
  t.is(problemOf({ zookeeper: { servers: ['localhost'], credentials_file: 'c' } }), '');
  t.regex(
    problemOf({ zookeeper: { servers, credentials_file: 'c' } }),
    /coordinator:zookeeper:servers: tls is required for zk.example.org,/,
  );
  t.regex(problemOf({ etcd: { endpoints }, zookeeper: { servers } }), /data/);
});

/** Starts a server that sends these bytes after each message. */
async function serverThatSays(t: ExecutionContext, bytes: Uint8Array | string): Promise<number> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => {});
    socket.on('data', () => socket.write(bytes));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = server.address();
  return typeof address === 'object' ? (address?.port ?? 0) : 0;
}

test('an oversized frame of ZooKeeper ends the connection', async (t) => {
  const open = async (bytes: readonly number[], timeoutMs: number): Promise<unknown> =>
    ZookeeperConnection.open({
      host: '127.0.0.1',
      port: await serverThatSays(t, Uint8Array.from(bytes)),
      tls: undefined,
      credentials: undefined,
      timeoutMs,
      onChange: () => {},
    });
  await t.throwsAsync(open([0x7f, 255, 255, 255], 2_000), {
    message: /invalid length 2147483647/,
  });
  await t.throwsAsync(open([255, 255, 255, 255], 2_000), { message: /invalid length -1/ });
  // One server sends an incomplete record, another refuses the session.
  await t.throwsAsync(open([0, 0, 0, 2, 0, 0], 2_000), { instanceOf: RangeError });
  const refused = [0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0];
  await t.throwsAsync(open(refused, 2_000), { message: /refused to open a session/ });
  await t.throwsAsync(open([], 50), { message: /did not respond within 50 ms/ });
});

/** A new session of ZooKeeper: version, timeout, id and an empty password. */
const session = [0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 58, 152, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/** Opens a session with a server of ZooKeeper that sends these bytes after each message. */
async function openZookeeper(
  t: ExecutionContext,
  bytes: readonly number[],
): Promise<ZookeeperConnection> {
  const options = { tls: undefined, credentials: undefined, timeoutMs: 60_000, onChange: () => {} };
  const port = await serverThatSays(t, Uint8Array.from(bytes));
  return ZookeeperConnection.open({ ...options, host: '127.0.0.1', port });
}

test('a request fails if ZooKeeper responds with the number of another request', async (t) => {
  // The server sends a session for the request too. It is a response to the request 0.
  const connection = await openZookeeper(t, session);
  await t.throwsAsync(within('the error', connection.getData('/a'), 10_000), {
    message: /before earlier requests/,
  });
});

test('no session is open if ZooKeeper sends an invalid message after it', async (t) => {
  await t.throwsAsync(openZookeeper(t, [...session, 0x7f, 255, 255, 255]), {
    message: /invalid length 2147483647/,
  });
});

test('a server that does not respond like etcd is skipped', async (t) => {
  const found = JSON.stringify({ kvs: [{ key: 'L3AvcyFr', value: 'eA==', version: '1' }] });
  const http = (status: string, body: string): string =>
    `HTTP/1.1 ${status}\r\nconnection: close\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  const bad = [
    await serverThatSays(t, 'SSH-2.0-OpenSSH\r\n'),
    await serverThatSays(t, 'HTTP/1.1 101 Other\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'),
    await serverThatSays(t, http('500 Error', '<html>')),
    await serverThatSays(t, http('503 Unavailable', '{"error":"no leader","code":14}')),
  ];
  const good = await serverThatSays(t, http('200 OK', found));
  const open = (ports: readonly number[]): ReturnType<typeof createEtcdCoordinator> => {
    const endpoints = ports.map((port) => `http://127.0.0.1:${port}`);
    const gateway = new EtcdGateway({ endpoints, readAccess: async () => ({}), timeoutMs: 2_000 });
    const coordinator = createEtcdCoordinator({ gateway, prefix: '/p/', log: { warn: () => {} } });
    t.teardown(() => coordinator.close());
    return coordinator;
  };
  for (const port of bad) {
    const found = within('the error', open([port]).get('s', 'k'), 10_000);
    await t.throwsAsync(found, { code: 'ERR_DATA_UNAVAILABLE' });
  }
  t.is(Buffer.from((await open([...bad, good]).get('s', 'k'))?.value ?? []).toString(), 'x');
});

/** Opens a gateway to a server that sends these parts. */
async function gatewayTo(t: ExecutionContext, parts: readonly Buffer[]): Promise<EtcdGateway> {
  const server = createHttpServer((_request, response) => {
    Readable.from(parts).pipe(response);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo; // it listens on a port
  const endpoints = [`http://127.0.0.1:${port}`];
  const gateway = new EtcdGateway({ endpoints, readAccess: async () => ({}), timeoutMs: 30_000 });
  t.teardown(() => gateway.close());
  return gateway;
}

const never = new AbortController().signal;

test('a stream of etcd yields each line, however the line arrives', async (t) => {
  const lines = ['{"result":{"a":1}}', '', `{"result":{"b":"${'é'.repeat(100_000)}"}}`, '{"c":3}'];
  const bytes = Buffer.from(`${lines.join('\n')}\n{"unfinished":`);
  const size = 1_001;
  const parts = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
    bytes.subarray(at * size, (at + 1) * size),
  );
  const gateway = await gatewayTo(t, parts);
  const read = await Array.fromAsync(gateway.stream('/v3/watch', {}, never));
  t.deepEqual(
    read.map((line) => JSON.stringify(line)),
    lines.filter((line) => line !== ''),
  );
});

// Serial, because it counts the searches of this process.
test.serial('a long line of etcd is searched once for its end', async (t) => {
  const prototype: { split: typeof String.prototype.split } = String.prototype;
  const { split } = prototype;
  let searched = 0;
  prototype.split = function (this: string, ...args: [never]) {
    searched += this.length;
    return split.apply(this, args);
  };
  t.teardown(() => {
    prototype.split = split;
  });
  const gateway = await gatewayTo(t, Array(300).fill(Buffer.alloc(65_536, 'x')));
  const reading = Array.fromAsync(gateway.stream('/v3/watch', {}, never));
  await t.throwsAsync(reading, { message: /a line of more than 16777216 bytes/ });
  t.true(searched < 3 * 16_777_216, `${searched} characters`);
});
