import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { Agent, createServer, type IncomingMessage, type RequestListener } from 'node:http';
import test, { type ExecutionContext } from 'ava';
import { readPart } from '#edge/link/read-part.ts';
import { within } from '../helpers/deadline.ts';

const content = Buffer.from('0123456789');

/** Starts a server, and returns a function that reads a part from it. */
async function partsFrom(t: ExecutionContext, listener: RequestListener) {
  const server = createServer(listener);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : 0;
  const agent = new Agent({ keepAlive: true });
  t.teardown(() => {
    agent.destroy();
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${port}/site/v1/packs/a/0`;
  return async (from: number, maxBytes = content.length, changed: object = {}) => {
    const signal = new AbortController().signal;
    const rest = { agent, ca: undefined, stallMs: 60_000, signal, ...changed };
    const chunks: Buffer[] = [];
    for await (const chunk of readPart({ url, range: { from, maxBytes }, ...rest })) {
      chunks.push(Buffer.from(chunk));
    }
    return Buffer.concat(chunks).toString('latin1');
  };
}

test('requests the rest of a part, and the whole of a new one', async (t) => {
  const ranges: (string | undefined)[] = [];
  const read = await partsFrom(t, ({ headers: { range } }, response) => {
    ranges.push(range);
    const from = Number(/\d+/.exec(range ?? '0')?.[0]);
    if (range === undefined) response.end(content);
    else {
      response.writeHead(206, { 'content-range': `bytes ${from}-9/10` });
      response.end(content.subarray(from));
    }
  });
  t.is(await read(0), '0123456789');
  t.is(await read(7), '789');
  t.deepEqual(ranges, [undefined, 'bytes=7-']);
});

// Serial, because it listens to all responses of this process.
test.serial('no bytes are lost if other code of the process listens to responses', async (t) => {
  const heard: Buffer[] = [];
  const listen = (message: unknown): void => {
    const { response } = message as { response: IncomingMessage }; // as it is published
    response.on('data', (chunk: Buffer) => heard.push(chunk));
  };
  subscribe('http.client.response.finish', listen);
  t.teardown(() => unsubscribe('http.client.response.finish', listen));
  const read = await partsFrom(t, (_request, response) => response.end(content));
  t.is(await read(0), '0123456789');
  t.is(Buffer.concat(heard).toString(), '0123456789');
});

test('discards the first bytes of a response from a cache that ignores the range', async (t) => {
  const read = await partsFrom(t, (_request, response) => {
    response.write(content.subarray(0, 3));
    setImmediate(() => response.end(content.subarray(3)));
  });
  t.is(await read(4), '456789');
});

test('refuses a larger part, another range and an error of the centre', async (t) => {
  const read = await partsFrom(t, ({ headers: { range } }, response) => {
    if (range === 'bytes=1-') response.writeHead(206, { 'content-range': 'bytes 0-9/10' });
    if (range === 'bytes=2-') response.writeHead(404);
    if (range === 'bytes=3-') response.writeHead(206, { 'content-range': 'bytes 3-9/10' });
    response.end(content);
  });
  await t.throwsAsync(read(0, 9), { code: 'ERR_BUNDLE_CONTENT' });
  await t.throwsAsync(read(1), { code: 'ERR_SITE_LINK' });
  await t.throwsAsync(read(2), { code: 'ERR_SITE_LINK', message: /status 404/ });
  await t.throwsAsync(read(3), { code: 'ERR_BUNDLE_CONTENT' });
});

test('a centre that switches to another protocol fails the request', async (t) => {
  const read = await partsFrom(t, (_request, { socket }) => {
    socket?.write('HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n');
  });
  await t.throwsAsync(within('the error', read(0)), {
    code: 'ERR_SITE_LINK',
    message: /another protocol/,
  });
});

test('a request fails if no data arrive, the connection is lost, or it is aborted', async (t) => {
  const read = await partsFrom(t, ({ headers: { range } }, response) => {
    if (range === 'bytes=2-') response.destroy();
    if (range === undefined) response.writeHead(200, { 'content-length': '10' }).write('0123');
  });
  await t.throwsAsync(read(1, 10, { stallMs: 1 }), {
    code: 'ERR_SITE_LINK',
    message: /sent no data/,
  });
  // The first bytes have arrived.
  await t.throwsAsync(read(0, 10, { stallMs: 100 }), {
    code: 'ERR_SITE_LINK',
    message: /sent no data/,
  });
  await t.throwsAsync(read(2), { code: 'ERR_SITE_LINK' });
  const end = new AbortController();
  const aborted = read(3, 10, { signal: end.signal });
  end.abort();
  await t.throwsAsync(aborted, { code: 'ERR_SITE_LINK' });
});
