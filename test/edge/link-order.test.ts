/** Order of requests of several classes over one connection. */

import { once } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import Type from 'typebox';
import { WebSocket, WebSocketServer } from 'ws';
import { EdgeError } from '#edge/errors.ts';
import { encodeFrame } from '#edge/link/frames.ts';
import { defineMessage, type LinkClass, linkClasses } from '#edge/link/link.ts';
import { LinkHandlers, LinkPeer } from '#edge/link/link-peer.ts';
import { OpenRequests } from '#edge/link/open-requests.ts';

const Params = Type.Object({ number: Type.Integer(), text: Type.String() });
const Reply = Type.Object({ number: Type.Integer() });

function messageOf(name: LinkClass) {
  return defineMessage({
    name: `test.${name}`,
    sender: 'site',
    class: name,
    params: Params,
    reply: Reply,
  });
}

interface Pair {
  readonly site: LinkPeer<string>;
  readonly centre: LinkPeer<string>;
  readonly handlers: LinkHandlers<string>;
}

/** Opens a WebSocket. Returns its two ends. */
async function connectSockets(
  t: ExecutionContext,
): Promise<{ readonly socket: WebSocket; readonly other: WebSocket }> {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1', autoPong: false });
  t.teardown(() => server.close());
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no address');
  const accepted = once(server, 'connection');
  const socket = new WebSocket(`ws://127.0.0.1:${address.port}`, { autoPong: false });
  t.teardown(() => socket.terminate());
  await once(socket, 'open');
  const [other] = await accepted;
  return { socket, other };
}

/** Connects two peers over a real socket. */
async function connectPair(t: ExecutionContext): Promise<Pair> {
  const { socket, other } = await connectSockets(t);
  const handlers = new LinkHandlers<string>('site');
  const common = { onUnexpected: () => {}, onEnd: () => {} };
  const openBy = (sender: string) => (bytes: number) => requests.open(sender, bytes);
  const requests = new OpenRequests();
  const centre = new LinkPeer({
    ...common,
    socket: other,
    handlers,
    from: 'site',
    open: openBy('site'),
  });
  const none = new LinkHandlers<string>('centre');
  const site = new LinkPeer({
    ...common,
    socket,
    handlers: none,
    from: 'centre',
    open: openBy('centre'),
  });
  return { site, centre, handlers };
}

test('a waiting request of a higher class is sent first', async (t) => {
  const { site, handlers } = await connectPair(t);
  const received: string[] = [];
  const releases: (() => void)[] = [];
  for (const name of linkClasses) {
    handlers.add(messageOf(name), async ({ number }) => {
      received.push(`${name} ${number}`);
      if (name === 'fact') await new Promise<void>((resolve) => releases.push(resolve));
      return { number };
    });
  }
  const text = 'x'.repeat(60_000);
  const facts = Array.from({ length: 20 }, (_, number) =>
    site.call(messageOf('fact'), { number, text }),
  );
  const alarm = site.call(messageOf('alarm'), { number: 1, text: '' });
  t.deepEqual(await alarm, { number: 1 });
  // One frame was being written, and at most five more requests of the class may be open.
  t.true(received.indexOf('alarm 1') <= 6);
  t.is(received.indexOf('alarm 1'), 1);
  const timer = setInterval(() => releases.shift()?.(), 1);
  t.teardown(() => clearInterval(timer));
  t.deepEqual(
    (await Promise.all(facts)).map(({ number }) => number),
    Array.from({ length: 20 }, (_, number) => number),
  );
  t.deepEqual(
    received.filter((it) => it.startsWith('fact')),
    Array.from({ length: 20 }, (_, number) => `fact ${number}`),
  );
});

test('open calls fail when the connection is lost, and aborted ones at once', async (t) => {
  const { site, centre, handlers } = await connectPair(t);
  handlers.add(messageOf('order'), () => new Promise(() => {}));
  const end = new AbortController();
  const aborted = site.call(messageOf('order'), { number: 1, text: '' }, end.signal);
  end.abort(new Error('enough'));
  await t.throwsAsync(aborted, { message: 'enough' });
  const lost = site.call(messageOf('order'), { number: 2, text: '' });
  const reason = new EdgeError('ERR_SITE_LINK', 'the centre stops');
  setTimeout(() => centre.end(1001, reason), 20);
  await t.throwsAsync(lost, { code: 'ERR_SITE_LINK' });
  await t.throwsAsync(site.call(messageOf('order'), { number: 3, text: '' }), {
    code: 'ERR_SITE_LINK',
  });
});

test('a request or a reply that does not match its schema fails', async (t) => {
  const { site, handlers } = await connectPair(t);
  handlers.add(messageOf('order'), async () => ({ number: 0.5 }));
  await t.throwsAsync(site.call(messageOf('order'), { number: 1, text: '' }), {
    code: 'ERR_SITE_MESSAGE',
    message: /reply/,
  });
  await t.throwsAsync(site.call(messageOf('order'), { number: 1.5, text: '' }), {
    code: 'ERR_SITE_MESSAGE',
    message: /parameters/,
  });
  const text = 'x'.repeat(66_000);
  await t.throwsAsync(site.call(messageOf('order'), { number: 1, text }), {
    code: 'ERR_SITE_MESSAGE',
  });
});

interface Reader {
  /** Sends a request, and resolves when the peer has answered or refused it. */
  ask(): Promise<void>;
  /** Sends a heartbeat, and resolves when the peer has received it. */
  ping(): Promise<void>;
  /** Reads the answers that the peer has sent so far. */
  read(): void;
  /** Number of answers to heartbeats. */
  readonly pongs: number;
  readonly ended: EdgeError | undefined;
}

/**
 * Connects a client to a peer whose answers count as sent only when the client reads them.
 * @param replyBytes - size of each reply
 */
async function connectReader(t: ExecutionContext, replyBytes: number): Promise<Reader> {
  const { socket, other } = await connectSockets(t);
  const unread: (() => void)[] = [];
  let pongs = 0;
  let ended: EdgeError | undefined;
  other.send = (_bytes: unknown, onSent: unknown) => {
    if (typeof onSent === 'function') unread.push(() => onSent());
  };
  other.pong = (_payload?: unknown, _mask?: unknown, onSent?: unknown) => {
    pongs += 1;
    if (typeof onSent === 'function') unread.push(() => onSent());
  };
  const message = defineMessage({
    name: 'test.read',
    sender: 'site',
    class: 'fact',
    params: Type.Object({}),
    reply: Type.Object({ text: Type.String() }),
  });
  const handlers = new LinkHandlers<string>('site');
  handlers.add(message, async () => ({ text: 'x'.repeat(replyBytes) }));
  const onEnd = (reason: EdgeError): void => {
    ended = reason;
  };
  const requests = new OpenRequests();
  const open = (bytes: number) => requests.open('site', bytes);
  new LinkPeer({ socket: other, handlers, from: 'site', open, onEnd, onUnexpected: () => {} });
  let id = 10;
  return {
    async ask() {
      const received = once(other, 'message');
      id += 1;
      socket.send(encodeFrame({ kind: 'request', id, name: 'test.read', params: {} }));
      await received;
      await setImmediate();
    },
    async ping() {
      const received = once(other, 'ping');
      socket.ping();
      await received;
    },
    read() {
      // Each answer that is read lets the peer send the next one.
      for (let next = unread.shift(); next !== undefined; next = unread.shift()) next();
    },
    get pongs() {
      return pongs;
    },
    get ended() {
      return ended;
    },
  };
}

test('a request is open until its reply is sent, and a side that reads no replies is disconnected', async (t) => {
  const reader = await connectReader(t, 10);
  for (let count = 0; count < 100; count += 1) {
    await reader.ask();
    if (count % 32 === 31) reader.read();
  }
  reader.read();
  t.is(reader.ended, undefined);
  for (let count = 0; count < 32; count += 1) await reader.ask();
  t.is(reader.ended, undefined);
  await reader.ask();
  t.like(reader.ended, { code: 'ERR_SITE_MESSAGE', message: 'too many requests are open' });
});

test('replies that are not read have a maximum size', async (t) => {
  const reader = await connectReader(t, 60_000);
  for (let count = 0; count < 51; count += 1) {
    await reader.ask();
    if (count % 17 === 16) reader.read();
  }
  t.is(reader.ended, undefined);
  for (let count = 0; count < 18; count += 1) await reader.ask();
  t.like(reader.ended, { code: 'ERR_SITE_MESSAGE', message: 'too many replies are not read' });
});

test('heartbeats of a side that does not read have one answer', async (t) => {
  const reader = await connectReader(t, 10);
  await reader.ping();
  await reader.ping();
  await reader.ping();
  t.is(reader.pongs, 1);
  reader.read();
  await reader.ping();
  t.is(reader.pongs, 2);
});
