/** Resource limits for connections of the HTTP API, per address and in total. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import test, { type ExecutionContext } from 'ava';
import { connectionsOf } from '#salt-api/connections.ts';
import { until, within } from '../helpers/deadline.ts';
import { startApi } from '../helpers/salt-api.ts';
import { clientHello, renegotiation } from '../helpers/tls-client.ts';
import { connectRaw } from '../helpers/zeromq-master.ts';

const oneMebibyte = { maxRequestBodySize: 1_048_576 };
const ping = { client: 'local', tgt: 'web1', fun: 'test.ping' };

interface Client {
  readonly socket: Socket;
  readonly closed: Promise<void>;
  isClosed(): boolean;
  /** Resolves when the received text matches a pattern. */
  answered(pattern: RegExp): Promise<string>;
}

/**
 * Opens a connection from an address of this machine. On Linux, all addresses in 127.0.0.0/8 can be
 * used.
 */
async function open(
  t: ExecutionContext,
  port: number,
  localAddress = '127.0.0.1',
): Promise<Client> {
  const socket = connect({ port, host: '127.0.0.1', localAddress });
  t.teardown(() => socket.destroy());
  let text = '';
  let isClosed = false;
  socket.on('error', () => {});
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
  });
  const closed = new Promise<void>((resolve) => {
    socket.once('close', () => {
      isClosed = true;
      resolve();
    });
  });
  await Promise.race([new Promise((resolve) => socket.once('connect', resolve)), closed]);
  const answered = async (pattern: RegExp): Promise<string> => {
    await until(String(pattern), () => pattern.test(text) || isClosed);
    if (!pattern.test(text)) throw new Error(`the connection ended without ${pattern}`);
    return text;
  };
  return { socket, closed, isClosed: () => isClosed, answered };
}

const head = 'POST /run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n';

test('connections of an address are limited, and idle ones are closed first', async (t) => {
  const { port, run, login } = await startApi(t, {
    minions: ['web1'],
    options: { connectionsPerAddress: 3, connections: 5 },
  });
  const token = await login();
  const stream = await open(t, port);
  stream.socket.write(`GET /events HTTP/1.1\r\nHost: localhost\r\nX-Auth-Token: ${token}\r\n\r\n`);
  await stream.answered(/retry: 400/);
  const idle = [await open(t, port), await open(t, port)];
  const next = await open(t, port);
  await within('the end of the oldest', idle[0]?.closed ?? Promise.reject());
  t.deepEqual(
    [stream, idle[1], next].map((client) => client?.isClosed()),
    [false, false, false],
  );
  t.is((await run(token, ping)).status, 200);
  t.false(stream.isClosed());
});

test('all connections are limited, and a new one replaces an idle one', async (t) => {
  const { port, run, login } = await startApi(t, {
    minions: ['web1'],
    options: { connectionsPerAddress: 3, connections: 3 },
  });
  const token = await login();
  const idle = await Promise.all(
    ['127.0.0.2', '127.0.0.3', '127.0.0.4'].map((from) => open(t, port, from)),
  );
  t.is((await run(token, ping)).status, 200);
  await within('the end of one', Promise.race(idle.map(({ closed }) => closed)));
  t.is(idle.filter((client) => client.isClosed()).length, 1);
});

test('a new connection is closed if all allowed connections are busy', async (t) => {
  const { port, login } = await startApi(t, { minions: [], options: { connections: 2 } });
  const token = await login();
  for (const from of ['127.0.0.2', '127.0.0.3']) {
    const stream = await open(t, port, from);
    stream.socket.write(
      `GET /events HTTP/1.1\r\nHost: localhost\r\nX-Auth-Token: ${token}\r\n\r\n`,
    );
    await stream.answered(/retry: 400/);
  }
  const more = await open(t, port, '127.0.0.4');
  await within('the end of one too many', more.closed);
  t.pass();
});

test('unfinished bodies of an address are limited, and the response asks for a retry', async (t) => {
  const { port, run, login } = await startApi(t, {
    minions: ['web1'],
    options: { ...oneMebibyte, bodyBytesPerAddress: 1_500_000, bodyBytes: 4_000_000 },
  });
  const token = await login();
  const part = Buffer.alloc(900_000, ' ');
  const first = await open(t, port, '127.0.0.2');
  first.socket.write(`${head}Content-Length: 1000000\r\n\r\n`);
  first.socket.write(part);
  const second = await open(t, port, '127.0.0.2');
  second.socket.write(`${head}Transfer-Encoding: chunked\r\n\r\n${part.length.toString(16)}\r\n`);
  second.socket.write(part);
  const [refused, kept] = await Promise.race(
    [
      [first, second],
      [second, first],
    ].map(async ([one, other]) => {
      await one?.answered(/HTTP\/1\.1 503 [\s\S]*"ERR_HTTP_BUSY"/);
      return [one, other] as const;
    }),
  );
  t.regex((await refused?.answered(/503/)) ?? '', /retry-after: \d+\r\n/i);
  await within('the end of the refused one', refused?.closed ?? Promise.reject());
  t.false(kept?.isClosed());
  // Other addresses are not affected.
  t.is((await run(token, ping)).status, 200);
  t.is((await run(token, { ...ping, arg: [' '.repeat(900_000)] })).status, 200);
});

test('bodies in tiny parts count with their real cost', async (t) => {
  const { port, run, login } = await startApi(t, {
    minions: ['web1'],
    options: { maxRequestBodySize: 262_144, bodyBytesPerAddress: 262_144, bodyBytes: 4_000_000 },
  });
  const token = await login();
  const client = await open(t, port, '127.0.0.2');
  client.socket.setNoDelay(true).write(`${head}Transfer-Encoding: chunked\r\n\r\n`);
  let isOver = false;
  const answered = client.answered(/HTTP\/1\.1 503 /).finally(() => {
    isOver = true;
  });
  // Parts that arrive in one turn are joined.
  for (let parts = 0; parts < 4_000 && !isOver; parts += 1) {
    client.socket.write('1\r\n \r\n');
    await new Promise(setImmediate);
  }
  await answered;
  t.is((await run(token, ping)).status, 200);
});

test('over the limit of all addresses, the request with the largest body is ended', async (t) => {
  const { port, run, login } = await startApi(t, {
    minions: ['web1'],
    options: {
      bodyBytesPerAddress: 1_000_000,
      bodyBytes: 1_400_000,
      maxRequestBodySize: 1_048_576,
    },
  });
  const token = await login();
  const most = await open(t, port, '127.0.0.2');
  most.socket.write(`${head}Content-Length: 1000000\r\n\r\n`);
  most.socket.write(Buffer.alloc(950_000, ' '));
  for (const from of ['127.0.0.3', '127.0.0.4', '127.0.0.5']) {
    const other = await open(t, port, from);
    other.socket.write(`${head}Content-Length: 1000000\r\n\r\n`);
    other.socket.write(Buffer.alloc(300_000, ' '));
  }
  await within('the end of the heaviest', most.closed);
  t.is((await run(token, ping)).status, 200);
});

test('memory for bodies is released after the responses', async (t) => {
  const { run, login } = await startApi(t, {
    minions: ['web1'],
    options: { ...oneMebibyte, bodyBytesPerAddress: 1_500_000, bodyBytes: 1_500_000 },
  });
  const token = await login();
  for (let count = 0; count < 5; count += 1) {
    t.is((await run(token, { ...ping, arg: [' '.repeat(900_000)] })).status, 200);
  }
});

test('a connection is ended if its client does not read a response', async (t) => {
  let isEnded = false;
  const { port } = await startApi(t, {
    minions: [],
    options: {
      requestTimeoutMs: 500,
      plugins: [
        {
          prefix: '/large',
          register: (app) => {
            app.get('/', async (_request, reply) => {
              reply.raw.once('close', () => {
                isEnded = true;
              });
              // This exceeds the buffers of the system on both sides.
              return reply.type('application/octet-stream').send(Buffer.alloc(268_435_456));
            });
          },
        },
      ],
    },
  });
  const socket = connect({ port, host: '127.0.0.1' });
  t.teardown(() => socket.destroy());
  socket.write('GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await until('the end of an answer', () => isEnded);
  t.pass();
});

/** Time in milliseconds that is shorter than the time limit of silent connections. */
const beforeTimeouts = 10_000;

test('a TLS handshake waits for its turn, and a client that sends more meanwhile is refused', async (t) => {
  const port = await startSecurely(t);
  const changeCipherSpec = Buffer.from('140303000101', 'hex');
  const peer = await connectRaw(t, port);
  peer.write(await clientHello(), changeCipherSpec);
  await peer.closed('more bytes');
  t.is(peer.receivedBytes, 0);
  const other = await connectRaw(t, port);
  other.write(await clientHello());
  await until('the answer', () => other.receivedBytes > 500);
});

test('a TLS client of the API cannot renegotiate', async (t) => {
  const port = await startSecurely(t);
  t.regex(await renegotiation(t, port), /no renegotiation/i);
});

/** Starts an API with TLS. Returns its port. */
async function startSecurely(t: ExecutionContext): Promise<number> {
  const fixture = (name: string): string =>
    fileURLToPath(new URL(`../../test/fixtures/tls/${name}`, import.meta.url));
  const tls = { certificate: fixture('master.pem'), key: fixture('master.key') };
  const { port } = await startApi(t, { minions: [], options: { tls } });
  return port;
}

test('half of the file descriptors of a process are reserved from HTTP', (t) => {
  t.deepEqual(connectionsOf({}, 1024), { connections: 512, connectionsPerAddress: 256 });
  t.deepEqual(connectionsOf({}, 200_000), { connections: 10_000, connectionsPerAddress: 5000 });
  const asked = { connections: 5000, connectionsPerAddress: 10 };
  t.deepEqual(connectionsOf(asked, 1024), { connections: 512, connectionsPerAddress: 10 });
  t.deepEqual(connectionsOf(asked, 200_000), asked);
});

test('any number of idle HTTP connections leaves the minion ports usable', async (t) => {
  const script = fileURLToPath(new URL('../helpers/few-descriptors.ts', import.meta.url));
  const child = spawn('/bin/sh', [
    '-c',
    'ulimit -n 160 && exec "$0" "$1"',
    process.execPath,
    script,
  ]);
  t.teardown(() => child.kill('SIGKILL'));
  const [line] = await within('the ports', once(createInterface(child.stdout), 'line'));
  const { http, requests } = JSON.parse(String(line)) as { http: number; requests: number };
  const flood = Array.from({ length: 200 }, async (_, index) =>
    open(t, http, `127.0.1.${1 + (index % 50)}`),
  );
  const clients = await Promise.all(flood);
  // The connection was accepted or has ended. Before that, no descriptor is missing.
  const left = (): number => clients.filter((client) => !client.isClosed()).length;
  await until('the end of all but 80', () => left() <= 80, beforeTimeouts);
  // ZeroMQ's listener sends a greeting on each connection.
  const minion = connect({ port: requests, host: '127.0.0.1' });
  t.teardown(() => minion.destroy());
  const [greeting] = await within('the greeting of a minion port', once(minion, 'data'));
  t.is((greeting as Buffer)[0], 0xff);
});
