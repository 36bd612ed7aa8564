/** Limits of requests and responses of HTTP, over real sockets. */

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { Agent, createServer, IncomingMessage, request as requestHttp } from 'node:http';
import { connect, Socket } from 'node:net';
import path from 'node:path';
import { Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import test, { type ExecutionContext } from 'ava';
import fc from 'fast-check';
import { startMetadataAgent } from '#guests/metadata-agent/metadata-agent.ts';
import { createSilentLogger } from '#master';
import { awaitResponse, RequestAdmission } from '#runtime';
import { limitSmallParts } from '#runtime/small-parts.ts';
import { within } from '../helpers/deadline.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

const maxParts = 65_536;
/** Too many chunks of one byte. */
const tooMany = Math.ceil((maxParts * 16) / 15) + 1;

/** Starts a server that sends back the size of each body, and returns its port. */
async function startServer(t: ExecutionContext): Promise<number> {
  const server = createServer((request, response) => {
    text(request).then(
      (body) => response.end(String(body.length)),
      () => response.destroy(),
    );
  });
  new RequestAdmission().protect(server);
  return portOf(t, server);
}

async function portOf(t: ExecutionContext, server: ReturnType<typeof createServer>) {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  return typeof address === 'object' ? (address?.port ?? 0) : 0;
}

/** Sends bytes, and returns the bytes that the server sends until it ends the connection. */
async function exchange(target: number | string, bytes: string): Promise<string> {
  const socket = typeof target === 'number' ? connect(target, '127.0.0.1') : connect(target);
  socket.on('error', () => {});
  socket.write(bytes);
  let answer = '';
  socket.on('data', (data) => {
    answer += data.toString();
  });
  // `once` would reject, because the connection may end with a reset.
  await within('the end', new Promise((resolve) => socket.once('close', resolve)));
  return answer;
}

/** Sends a body in `count` chunks of `size` bytes, and returns the response. */
function sendChunks(port: number, count: number, size: number): Promise<string> {
  const head = 'POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked';
  const chunk = `${size.toString(16)}\r\n${'a'.repeat(size)}\r\n`;
  return exchange(port, `${head}\r\n\r\n${chunk.repeat(count)}0\r\n\r\n`);
}

/** Answers with the given bytes, and returns what the client reads. */
async function receive(t: ExecutionContext, bytes: string): Promise<string> {
  const server = createServer((_request, { socket }) => {
    socket?.on('error', () => {});
    socket?.end(bytes);
  });
  const port = await portOf(t, server);
  const outgoing = requestHttp({ port, host: '127.0.0.1', agent: false });
  const awaited = awaitResponse(outgoing);
  outgoing.end();
  const response: IncomingMessage = await awaited;
  return within('the body', text(response));
}

const chunked = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n';

test('a request body may have many parts, unless they are small', async (t) => {
  const port = await startServer(t);
  t.regex(await sendChunks(port, maxParts, 1), /^HTTP\/1\.1 200[\s\S]*65536/);
  t.regex(await sendChunks(port, 2 * maxParts, 16), /^HTTP\/1\.1 200[\s\S]*2097152/);
  const refused = await sendChunks(port, tooMany, 1);
  t.regex(refused, /^HTTP\/1\.1 400 [\s\S]*65536 more than one for each 16 bytes/);
});

test('the limit for small parts applies to each request of a connection', async (t) => {
  const port = await startServer(t);
  const socket = connect(port, '127.0.0.1');
  t.teardown(() => socket.destroy());
  const request = `POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n${'1\r\na\r\n'.repeat(50_000)}0\r\n\r\n`;
  for (let count = 0; count < 3; count += 1) {
    socket.write(request);
    const [answer] = await within('the answer', once(socket, 'data'));
    t.regex(String(answer), /^HTTP\/1\.1 200[\s\S]*50000/);
  }
});

/** Returns a message without a parser, and its socket. The test calls `push` as the parser does. */
function unparsed(t: ExecutionContext): { message: IncomingMessage; socket: Socket } {
  const socket = new Socket();
  t.teardown(() => socket.destroy());
  const message = new IncomingMessage(socket);
  limitSmallParts(message, (error) => t.fail(error.message));
  return { message, socket };
}

/** Pushes parts until the message wants no more, at most 1,000,000. Returns their number. */
function pushMany(message: IncomingMessage, part: Buffer): number {
  let parts = 1;
  while (message.push(part) && parts < 1_000_000) parts += 1;
  return parts;
}

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('small parts are joined, and reading pauses until the next turn', async (t) => {
  const { message, socket } = unparsed(t);
  const read: number[] = [];
  message.on('data', (part: Buffer) => read.push(part.length));
  await nextTurn();
  t.is(pushMany(message, Buffer.of(97)), 16_384);
  socket.pause();
  await nextTurn();
  t.deepEqual(read, [16_384]);
  t.is(pushMany(message, Buffer.of(97)), 16_384);
});

test('joined parts are not larger than what the parser reads at once', async (t) => {
  const { message } = unparsed(t);
  const read: number[] = [];
  message.on('data', (part: Buffer) => read.push(part.length));
  await nextTurn();
  for (let parts = 0; parts < 200; parts += 1) message.push(Buffer.alloc(1_000));
  await nextTurn();
  t.deepEqual(read, [65_000, 65_000, 65_000, 5_000]);
});

test('without a reader, a message fills its buffer, and no more', async (t) => {
  const small = unparsed(t);
  let parts = 0;
  // The parser pauses the socket when `push` returns `false`.
  for (small.socket.resume(); !small.socket.isPaused() && parts < 1_000; await nextTurn()) {
    parts += pushMany(small.message, Buffer.alloc(300));
    small.socket.pause();
    await nextTurn();
  }
  t.true(parts >= 65_536 / 300);
  t.true(small.message.readableLength < 2 * 65_536);
  const large = unparsed(t);
  t.is(pushMany(large.message, Buffer.alloc(1_500)), Math.ceil(65_536 / 1_500));
});

test('bodies in parts of any size arrive unchanged', async (t) => {
  const server = createServer((request, response) => {
    text(request).then(
      (body) => response.end(body),
      () => response.destroy(),
    );
  });
  new RequestAdmission().protect(server);
  const port = await portOf(t, server);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.teardown(() => agent.destroy());
  const parts = fc.array(
    fc.tuple(fc.constantFrom(1, 2, 300, 1_023, 1_024, 70_000), fc.nat(1_500)),
    {
      maxLength: 6,
    },
  );
  const property = fc.asyncProperty(parts, async (groups) => {
    const outgoing = requestHttp({ port, host: '127.0.0.1', agent, method: 'POST' });
    const awaited = awaitResponse(outgoing);
    let sent = '';
    for (const [size, count] of groups) {
      for (let left = Math.min(count, 2_000_000 / size); left > 0; left -= 1) {
        const part = String.fromCharCode(97 + (left % 26)).repeat(size);
        sent += part;
        outgoing.write(part);
      }
    }
    outgoing.end();
    return (await text(await within('the response', awaited))) === sent;
  });
  await fc.assert(property, { numRuns: 30 });
  t.pass();
});

test('a body that arrives after the response has the same limit', async (t) => {
  const server = createServer((_request, response) => response.end('early'));
  new RequestAdmission().protect(server);
  const socket = connect(await portOf(t, server), '127.0.0.1');
  socket.on('error', () => {});
  socket.write('POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n');
  await within('the response', once(socket, 'data'));
  let next = '';
  socket.on('data', (data) => {
    next += data.toString();
  });
  socket.write(`${'1\r\na\r\n'.repeat(tooMany)}0\r\n\r\n`);
  socket.write('GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n');
  await within('the end', new Promise((resolve) => socket.once('close', resolve)));
  t.is(next, '');
});

test('a reader may destroy a request whose small parts still arrive', async (t) => {
  const server = createServer((request) => {
    request.on('error', () => {});
    request.once('data', () => request.destroy());
  });
  new RequestAdmission().protect(server);
  const port = await portOf(t, server);
  // An error in an immediate would end the process.
  t.is(await sendChunks(port, 40_000, 2), '');
});

test('a client that does not read its responses may send small parts', async (t) => {
  const large = 16_000_000;
  let requests = 0;
  let answers = 0;
  let served: Socket | undefined;
  const server = createServer((request, response) => {
    requests += 1;
    request.resume();
    request.once('end', () => {
      answers += 1;
      response.end(Buffer.alloc(request.url === '/large' ? large : 1));
    });
  });
  server.on('connection', (socket: Socket) => {
    served = socket;
  });
  new RequestAdmission().protect(server);
  const socket = connect(await portOf(t, server), '127.0.0.1');
  t.teardown(() => socket.destroy());
  const part = '5\r\nabcde\r\n';
  const post = 'POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n';
  const get = (path: string): string => `GET ${path} HTTP/1.1\r\nhost: a\r\n\r\n`;
  let received = 0;
  const all = Promise.withResolvers<void>();
  socket.on('data', (data) => {
    received += data.length;
    if (received > 2 * large && data.subarray(-5).toString().endsWith('\n\0')) all.resolve();
  });
  socket.write(get('/large'));
  await within('the first response', once(socket, 'data'));
  socket.pause();
  socket.write(get('/large'));
  while (answers < 2) await nextTurn();
  // Node.js pauses the connection when this request arrives.
  socket.write(post + part.repeat(500));
  while (requests < 3) await nextTurn();
  // The parts are joined at the end of their turn.
  for (let turns = 0; turns < 10; turns += 1) await nextTurn();
  t.true(served?.isPaused());
  socket.write(`${part.repeat(5_000)}0\r\n\r\n${get('/last')}`);
  socket.resume();
  await within('all responses', all.promise);
  t.true(received > 2 * large);
});

test('the buffer of a slow reader stays small', async (t) => {
  const size = Promise.withResolvers<number>();
  const server = createServer((request, response) => {
    let largest = 0;
    const slow = new Writable({
      highWaterMark: 1_000,
      write: (_part, _encoding, done) => {
        largest = Math.max(largest, request.readableLength);
        setImmediate(done);
      },
    });
    request.pipe(slow).once('finish', () => {
      size.resolve(largest);
      response.end();
    });
  });
  new RequestAdmission().protect(server);
  const port = await portOf(t, server);
  t.regex(await sendChunks(port, 10_000, 300), /^HTTP\/1\.1 200/);
  // The buffer is full with 64 KiB, and one read of the parser may follow.
  t.true((await size.promise) <= 2 * 65_536);
});

test('a request that nobody reads does not hide that its client disconnects', async (t) => {
  const closed = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const server = createServer(({ socket }) => {
    socket.once('close', () => closed.resolve());
    begun.resolve();
  });
  new RequestAdmission().protect(server);
  const socket = connect(await portOf(t, server), '127.0.0.1');
  const head = 'POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n';
  socket.write(head + '1\r\na\r\n'.repeat(1_200));
  await begun.promise;
  socket.end();
  await within('the end', closed.promise);
  t.pass();
});

test('requests that Node.js itself answers end the connection', async (t) => {
  const port = await startServer(t);
  const expecting = 'GET / HTTP/1.1\r\nhost: a\r\nexpect: x\r\n\r\n';
  t.is((await exchange(port, expecting.repeat(1_000))).split('HTTP/1.1 417').length - 1, 1);
  const withoutHost = 'GET / HTTP/1.1\r\n\r\n';
  const refused = await exchange(port, withoutHost.repeat(1_000));
  t.is(refused.split('HTTP/1.1 400').length - 1, 1);
  t.regex(refused, /the header "host" is missing/);
  // HTTP/1.0 has no such header.
  t.regex(await exchange(port, 'GET / HTTP/1.0\r\n\r\n'), /^HTTP\/1\.1 200/);
});

// Serial, because it counts the requests of this process.
test.serial(
  'in one turn, a server reads few requests of an address, and others are served',
  async (t) => {
    const port = await startServer(t);
    let most = 0;
    let read = 0;
    const onRequest = (): void => {
      read += 1;
    };
    subscribe('http.server.request.start', onRequest);
    t.teardown(() => unsubscribe('http.server.request.start', onRequest));
    let all = 0;
    let isOver = false;
    const count = (): void => {
      most = Math.max(most, read);
      all += read;
      read = 0;
      if (!isOver) setImmediate(count);
    };
    t.teardown(() => {
      isOver = true;
    });
    setImmediate(count);
    const request = 'GET / HTTP/1.1\r\nhost: a\r\n\r\n';
    /** Opens a connection that the server has accepted. */
    const open = async (localAddress: string): Promise<Socket> => {
      const socket = connect({ port, host: '127.0.0.1', localAddress });
      t.teardown(() => socket.destroy());
      socket.on('error', () => {});
      socket.write(request);
      await within('the response', once(socket, 'data'));
      return socket;
    };
    const honest = await open('127.0.0.1');
    const hostile = await Promise.all(Array.from({ length: 100 }, () => open('127.0.0.2')));
    const from = all;
    const floods = hostile.map((socket) => {
      socket.write(request.repeat(2_000));
      return new Promise((resolve) => socket.once('close', resolve));
    });
    while (all < from + 3_000) await nextTurn();
    const before = all;
    honest.write(request);
    const [answer] = await within('the response', once(honest, 'data'));
    t.regex(String(answer), /^HTTP\/1\.1 200/);
    // Of the 200,000 requests of the other address, those of a few turns.
    t.true(all - before < 10_000, `${all - before} requests`);
    await within('the end', Promise.all(floods));
    isOver = true;
    // The limit of all addresses, and the rest of one slice.
    t.true(most <= 128 + 16_384 / 27, `${most} requests`);
  },
);

test('the metadata agent limits the unanswered requests of a connection, and small parts', async (t) => {
  const socket = path.join(temporaryDirectory(t), 'agent.sock');
  let asked = 0;
  const agent = await startMetadataAgent({
    socket,
    nova: { url: 'http://127.0.0.1:1', secret: 'guest-secret' },
    master: { url: 'http://127.0.0.1:1', name: 'net-1', secret: 'the secret of these networks' },
    find: async () => {
      asked += 1;
      // The first requests get no response.
      if (asked <= 8) await new Promise(() => {});
      return { instance: 'a', project: 'p' };
    },
    now: Date.now,
    log: createSilentLogger(),
  });
  t.teardown(() => agent.close());
  const headers = 'host: a\r\nx-neutron-network-id: net-A\r\nx-forwarded-for: 10.0.0.5\r\n';
  const request = `GET /openstack HTTP/1.1\r\n${headers}\r\n`;
  t.is(await exchange(socket, request.repeat(2_000)), '');
  t.is(asked, 8);
  const head = `POST /openstack HTTP/1.1\r\n${headers}transfer-encoding: chunked\r\n\r\n`;
  t.regex(await exchange(socket, head + '1\r\na\r\n'.repeat(tooMany)), /^HTTP\/1\.1 400 /);
});

test('a response body may have many parts, unless they are small', async (t) => {
  const small = `${chunked}${'1\r\na\r\n'.repeat(maxParts)}0\r\n\r\n`;
  t.is((await receive(t, small)).length, maxParts);
  const large = `${chunked}${'10\r\n0123456789abcdef\r\n'.repeat(2 * maxParts)}0\r\n\r\n`;
  t.is((await receive(t, large)).length, 16 * 2 * maxParts);
  const tooSmall = `${chunked}${'1\r\na\r\n'.repeat(tooMany)}0\r\n\r\n`;
  await t.throwsAsync(receive(t, tooSmall), { message: /too many small parts/ });
});

test('a server may send 16 interim responses, and no more', async (t) => {
  const hint = 'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n';
  const end = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok';
  t.is(await receive(t, hint.repeat(16) + end), 'ok');
  await t.throwsAsync(receive(t, hint.repeat(17) + end), { message: /16 interim responses/ });
});
