/** Limits of requests and responses of HTTP, over real sockets. */

import { once } from 'node:events';
import { Agent, createServer, type IncomingMessage, request as requestHttp } from 'node:http';
import { connect } from 'node:net';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import test, { type ExecutionContext } from 'ava';
import fc from 'fast-check';
import { startMetadataAgent } from '#guests/metadata-agent/metadata-agent.ts';
import { createSilentLogger } from '#master';
import { awaitResponse, RequestAdmission } from '#runtime';
import { within } from '../helpers/deadline.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

const maxParts = 4_096;
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
  t.regex(await sendChunks(port, maxParts, 1), /^HTTP\/1\.1 200[\s\S]*4096/);
  t.regex(await sendChunks(port, 3 * maxParts, 16), /^HTTP\/1\.1 200[\s\S]*196608/);
  const refused = await sendChunks(port, tooMany, 1);
  t.regex(refused, /^HTTP\/1\.1 400 [\s\S]*4096 more than one for each 16 bytes/);
});

test('the limit for small parts applies to each request of a connection', async (t) => {
  const port = await startServer(t);
  const socket = connect(port, '127.0.0.1');
  t.teardown(() => socket.destroy());
  const request = `POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n${'1\r\na\r\n'.repeat(3_000)}0\r\n\r\n`;
  for (let count = 0; count < 3; count += 1) {
    socket.write(request);
    const [answer] = await within('the answer', once(socket, 'data'));
    t.regex(String(answer), /^HTTP\/1\.1 200[\s\S]*3000/);
  }
});

test('in one turn, the small parts of a connection are joined, and reading pauses', async (t) => {
  const turns: { parts: number; bytes: number; largest: number }[] = [];
  const ended = Promise.withResolvers<void>();
  const server = createServer((request, response) => {
    let turn = { parts: 0, bytes: 0, largest: 0 };
    request.on('data', (part: Buffer) => {
      // An immediate runs once in each turn.
      if (turn.parts === 0) {
        setImmediate(() => {
          turns.push(turn);
          turn = { parts: 0, bytes: 0, largest: 0 };
        });
      }
      turn.parts += 1;
      turn.bytes += part.length;
      turn.largest = Math.max(turn.largest, part.length);
    });
    request.once('end', () => {
      response.end();
      ended.resolve();
    });
  });
  new RequestAdmission().protect(server);
  const port = await portOf(t, server);
  t.regex(await sendChunks(port, 10_000, 300), /^HTTP\/1\.1 200/);
  await ended.promise;
  t.is(
    turns.reduce((sum, { bytes }) => sum + bytes, 0),
    3_000_000,
  );
  // One read of the parser, and the parts before the pause.
  t.true(Math.max(...turns.map(({ bytes }) => bytes)) < 65_536 + 300_000);
  t.true(Math.max(...turns.map(({ parts }) => parts)) <= 10);
  t.true(Math.max(...turns.map(({ largest }) => largest)) <= 65_536);
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

test('a body that nobody reads has the same limit', async (t) => {
  const server = createServer(() => {});
  new RequestAdmission().protect(server);
  const port = await portOf(t, server);
  t.regex(await sendChunks(port, 20_000, 1), /^HTTP\/1\.1 400 /);
});

test('the metadata agent limits the unanswered requests of a connection, and small parts', async (t) => {
  const socket = path.join(temporaryDirectory(t), 'agent.sock');
  let asked = 0;
  const agent = await startMetadataAgent({
    socket,
    nova: { url: 'http://127.0.0.1:1', secret: 'guest-secret' },
    master: { url: 'http://127.0.0.1:1', name: 'net-1', secret: 'the secret of these networks' },
    find: () => {
      asked += 1;
      return new Promise(() => {});
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
  const large = `${chunked}${'10\r\n0123456789abcdef\r\n'.repeat(3 * maxParts)}0\r\n\r\n`;
  t.is((await receive(t, large)).length, 16 * 3 * maxParts);
  const tooSmall = `${chunked}${'1\r\na\r\n'.repeat(tooMany)}0\r\n\r\n`;
  await t.throwsAsync(receive(t, tooSmall), { message: /too many small parts/ });
});

test('a server may send 16 interim responses, and no more', async (t) => {
  const hint = 'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n';
  const end = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok';
  t.is(await receive(t, hint.repeat(16) + end), 'ok');
  await t.throwsAsync(receive(t, hint.repeat(17) + end), { message: /16 interim responses/ });
});
