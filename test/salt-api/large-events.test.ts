/** Event streams when events are large, or readers slow. */
import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import test, { type ExecutionContext } from 'ava';
import { within } from '../helpers/deadline.ts';
import { openEvents as open } from '../helpers/event-reader.ts';
import { json, startApi } from '../helpers/salt-api.ts';
import { clientFrame } from '../helpers/websocket-reader.ts';

for (const [form, path] of [
  ['/events', '/events'],
  ['/rpc', '/rpc/events.subscribe'],
] as const) {
  test(`over ${form}, who reads too slowly is told that events are missing, and is ended`, async (t) => {
    const { port, login, master, ask } = await startApi(t, {
      minions: [],
      options: { streams: 1 },
    });
    const headers = json(await login());
    const reader = await open(t, port, headers, '', path);
    reader.response.pause();
    // However much lies between, at some time it is full. Its place is free when it was ended.
    const text = 'x'.repeat(500_000);
    let fired = 0;
    for (let isOpen = true; isOpen; fired += 4) {
      for (let count = 0; count < 4; count += 1) await master.events.fire('my/tag', { text });
      const other = await open(t, port, headers);
      isOpen = other.response.statusCode !== 200;
      other.response.destroy();
    }
    // Two of them wait here, and what the system takes are some more.
    t.true(fired < 200, `${fired} events`);
    reader.response.resume();
    await within('the end of a stream', reader.ended);
    t.true(reader.response.complete);
    t.regex(reader.text.slice(-500), /saltbridge\/events\/missed/);
    t.is((await ask({ path: '/', headers })).status, 200);
  });
}

test('events of 5 MB reach whoever reads, over every stream', async (t) => {
  const { port, login, master } = await startApi(t, {
    minions: [],
    config: { maxEventSize: 16_777_216 },
    options: { maxEventSize: 16_777_216 },
  });
  const headers = json(await login());
  const ask = (options: object): ClientRequest =>
    httpRequest({ port, host: '127.0.0.1', headers, agent: false, ...options });
  const events = await responseOf(t, ask({ path: '/events' }));
  const lines = await responseOf(t, ask({ path: '/rpc/events.subscribe', method: 'POST' }));
  const upgrade = { connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': 13 };
  const key = { 'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==' };
  const asked = ask({ path: '/ws', headers: { ...headers, ...upgrade, ...key } });
  const socket = await new Promise<Readable>((resolve) => {
    asked.once('upgrade', (_response, client) => {
      t.teardown(() => client.destroy());
      client.write(clientFrame('websocket client ready'));
      client.once('data', () => resolve(client));
    });
    asked.end();
  });
  const read = [events, lines, socket].map((stream) => until(stream, 'my/last'));
  for (const letter of ['a', 'b', 'c']) {
    await master.events.fire(`my/${letter}`, { text: letter.repeat(5_000_000) });
  }
  await master.events.fire('my/last', {});
  for (const bytes of await within('all events', Promise.all(read), 30_000)) {
    for (const letter of ['a', 'b', 'c']) t.true(bytes.includes(letter.repeat(5_000_000)));
  }
});

function responseOf(t: ExecutionContext, asked: ClientRequest): Promise<IncomingMessage> {
  t.teardown(() => asked.destroy());
  asked.on('error', () => {});
  const answered = new Promise<IncomingMessage>((resolve) => asked.once('response', resolve));
  asked.end();
  return within('the head of a stream', answered);
}

/** All that comes, up to a word near the end of it. */
async function until(stream: Readable, word: string): Promise<Buffer> {
  const chunks: Buffer[] = [];
  stream.on('error', () => {});
  await new Promise<void>((resolve) => {
    stream.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      if (Buffer.concat(chunks.slice(-2)).includes(word)) resolve();
    });
  });
  return Buffer.concat(chunks);
}
