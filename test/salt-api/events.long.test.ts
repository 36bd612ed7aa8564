/** Event streams: server-sent events and WebSocket. */
import { once } from 'node:events';
import { createServer, IncomingMessage } from 'node:http';
import { type AddressInfo, connect, Socket } from 'node:net';
import { Duplex, PassThrough } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import test, { type ExecutionContext } from 'ava';
import type { MasterEvent } from '#master';
import { LimitExceeded, SendPool } from '#runtime';
import { createSaltApi } from '#salt-api';
import { streamOwnerOf } from '#salt-api/context.ts';
import { EventEncoder, FlushTimer, StreamLimiter, writeEvents } from '#salt-api/event-stream.ts';
import { apiLimits } from '#salt-api/limits.ts';
import { until, within } from '../helpers/deadline.ts';
import { openEvents as open } from '../helpers/event-reader.ts';
import { json, mayRead, password, send, startApi } from '../helpers/salt-api.ts';
import { clientFrame, framesOf, upgrade } from '../helpers/websocket-reader.ts';
import { withMember } from '../helpers/with-member.ts';

test('a stream begins at once, and contains every event as one line of JSON', async (t) => {
  const { port, login, master } = await startApi(t, { minions: [] });
  const token = await login();
  const reader = await open(t, port, {
    cookie: `session_id=${token}`,
    accept: 'text/event-stream',
  });
  t.is(reader.response.statusCode, 200);
  t.is(reader.response.headers['content-type'], 'text/event-stream;charset=utf-8');
  t.is(reader.response.headers['cache-control'], 'no-cache');
  t.is(await reader.until(/\n/), 'retry: 400\n');
  await master.events.fire('my/tag', { text: 'two\nlines', big: 2n ** 60n });
  const text = await reader.until(/\n\n/);
  const [, tag, data, empty] = text.split('\n');
  t.is(tag, 'tag: my/tag');
  t.regex(
    String(data),
    /^data: \{"tag": "my\/tag", "data": \{.*"big": 1152921504606846976, "_stamp": "/,
  );
  t.is(JSON.parse(String(data).slice(6)).data.text, 'two\nlines');
  t.is(empty, '');
});

test('a tag with line breaks does not start a new line', async (t) => {
  const { port, login, master } = await startApi(t, { minions: [] });
  const reader = await open(t, port, json(await login()));
  await master.events.fire('a\ndata: {}\n\nb', {});
  await reader.until(/_stamp.*\n\n/);
  t.is(reader.text.match(/^data:/gm)?.length, 1);
});

test('tokens are accepted only where browsers can send them', async (t) => {
  const { port, login, ask } = await startApi(t, { minions: [] });
  const session = await login();
  const credentials = { username: 'admin', password, eauth: 'sharedsecret' };
  const made = await ask({ method: 'POST', path: '/token', headers: json(), body: credentials });
  const [{ token }] = made.json as [{ token: string }];
  for (const [headers, query] of [
    [{}, `?token=${session}`],
    [{}, `?salt_token=${token}`],
    [{ 'x-auth-token': session }, ''],
  ] as const) {
    t.is((await open(t, port, headers, query)).response.statusCode, 200);
  }
  for (const path of [
    '/events',
    '/events?token=',
    `/events?token=${token}`,
    `/events?salt_token=${session}`,
    '/events?salt_token=../x',
    `/events?token=${session}&token=${session}`,
  ]) {
    t.is((await ask({ path })).status, 401, path);
  }
  t.is((await ask({ path: `/stats?token=${session}` })).status, 401);
});

test('a limited user sees its own jobs, and events that a rule lets it read', async (t) => {
  const { port, login, run, master } = await startApi(t, {
    config: mayRead('limited', 'deploy/*'),
  });
  const [admin, limited] = [await login(), await login('limited')];
  const reader = await open(t, port, json(limited));
  const ping = { client: 'local_async', tgt: 'web1', fun: 'test.ping' };
  const jidOf = async (token: string): Promise<string> => {
    const {
      return: [{ jid }],
    } = (await run(token, ping)).json as { return: [{ jid: string }] };
    return jid;
  };
  const others = await jidOf(admin);
  const own = await jidOf(limited);
  await reader.until(new RegExp(`tag: salt/job/${own}/ret/web1\n`));
  await run(admin, { client: 'runner', fun: 'jobs.list_jobs' });
  await master.events.fire('secret/thing', {});
  await master.events.fire('deploy/done', {});
  await reader.until(/tag: deploy\/done\n/);
  t.false(reader.text.includes(others));
  t.deepEqual(
    reader.tags.filter((tag) => !tag.includes(own)),
    ['deploy/done'],
  );
});

test('a stream can select tags', async (t) => {
  const { port, login, master } = await startApi(t, { minions: [] });
  const reader = await open(t, port, json(await login()), '?match=my/*');
  await master.events.fire('other', {});
  await master.events.fire('my/one', {});
  await reader.until(/tag: my\/one\n/);
  t.deepEqual(reader.tags, ['my/one']);
});

test('log-out, revocation and server shutdown end streams', async (t) => {
  const { port, login, ask, master, api } = await startApi(t, { minions: [] });
  const first = await login();
  const loggedOut = await open(t, port, json(first));
  await ask({ method: 'POST', path: '/logout', headers: json(first), body: {} });
  await within('the end of a stream', loggedOut.ended);
  const revoked = await open(t, port, json(await login()));
  await master.logins.revoke({ user: 'admin' });
  await within('the end of a stream', revoked.ended);
  const last = await open(t, port, json(await login()));
  await api.close();
  await within('the end of a stream', last.ended);
  t.true(last.response.complete);
});

test('a stream ends when its token expires', async (t) => {
  const { port, login } = await startApi(t, { minions: [], config: { eauth: { tokenExpire: 3 } } });
  const reader = await open(t, port, json(await login()));
  t.is(reader.response.statusCode, 200);
  await within('the end of a stream', reader.ended);
  t.true(reader.response.complete);
});

test('the log-ins of one user share a limit of streams, and leave streams for other users', (t) => {
  const streams = new StreamLimiter(100, 10);
  const openAll = (user: string): (() => void)[] =>
    Array.from({ length: 200 }, (_, index) => ({ token: `${user} ${index % 20}`, user })).flatMap(
      (owner) => streams.tryEnter(owner) ?? [],
    );
  const first = openAll('a');
  t.is(first.length, 50);
  t.is(openAll('b').length, 25);
  for (const user of ['c', 'd']) t.is(openAll(user).length, 1);
  for (const leave of first) leave();
  t.is(streams.open, 27);
  t.is(openAll('e').length, 48);
});

test('the streams of a user do not count for a user of another back end with the same name', (t) => {
  const streams = new StreamLimiter(100, 100);
  const open = (eauth: string): number => {
    const owner = streamOwnerOf({ name: 'alice', eauth, token: eauth });
    return Array.from({ length: 100 }, () => streams.tryEnter(owner)).filter((it) => it).length;
  };
  t.is(open('pam'), 50);
  t.is(open('ldap'), 25);
});

test('requests of one connection hold at most one place of the event streams', async (t) => {
  const options = { streamsPerToken: 2 };
  const { port, login } = await startApi(t, { minions: [], options });
  const token = await login();
  const client = connect(port, '127.0.0.1');
  t.teardown(() => client.destroy());
  client.write(`GET /events?token=${token} HTTP/1.1\r\nHost: localhost\r\n\r\n`.repeat(8));
  await within('the head of a stream', once(client, 'data'));
  t.is((await open(t, port, json(token))).response.statusCode, 200);
  t.is((await open(t, port, json(token))).response.statusCode, 429);
});

test('an error ends a stream with an event that names its code, and a line in the log', async (t) => {
  const out = new PassThrough();
  const lines: unknown[] = [];
  const queue = new SendPool(apiLimits.streamBytes, { messageBytes: 1_048_576 }).open(out);
  async function* batches(): AsyncGenerator<readonly MasterEvent[]> {
    yield [{ tag: 'my/tag', data: {} }];
    throw new LimitExceeded(apiLimits.streamBytes, 1);
  }
  const encoder = new EventEncoder();
  await writeEvents(batches(), queue, {
    form: { encode: (events) => encoder.serverSent(events), keepAlive: Buffer.alloc(0) },
    flushTimer: new FlushTimer(1),
    log: { warn: (line: unknown) => void lines.push(line) },
  });
  const text = String(await buffer(out));
  t.regex(text, /^tag: my\/tag\n.*\n\ntag: saltbridge\/events\/error\ndata: /);
  t.regex(text, /"error": "ERR_LIMIT", "message": "api.streamBytes: .*\n\n$/);
  t.is(lines.length, 1);
});

test('a WebSocket whose patterns are refused gets the code of the error', async (t) => {
  const { port, login } = await startApi(t, { minions: [] });
  const path = `/ws/${await login()}?${'match=a&'.repeat(65)}`;
  const client = await upgrade(t, port, path);
  await client.until('\r\n\r\n');
  client.write(clientFrame('websocket client ready'));
  const text = String(await client.until('saltbridge/events/error'));
  t.regex(text, /"error": "ERR_HTTP_FIELDS", "message": "match: too many globs/);
  await within('the end of a WebSocket', client.closed);
});

test('a log-in has at most 64 streams, and a closed one can be replaced', async (t) => {
  const { port, login } = await startApi(t, { minions: [] });
  const token = await login();
  const readers = await Promise.all(Array.from({ length: 64 }, () => open(t, port, json(token))));
  t.is((await open(t, port, json(token))).response.statusCode, 429);
  t.is((await open(t, port, json(await login()))).response.statusCode, 200);
  const other = json(await login('limited'));
  t.is((await open(t, port, other)).response.statusCode, 200);
  readers[0]?.response.destroy();
  for (;;) {
    const again = await open(t, port, json(token));
    if (again.response.statusCode === 200) break;
  }
  t.pass();
});

async function leavesNoStream(t: ExecutionContext, kind: '/ws/' | '/events?token='): Promise<void> {
  const { master } = await startApi(t, { minions: [] });
  const asked = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<void>();
  const identify = async (given: string) => {
    asked.resolve();
    await answer.promise;
    return master.logins.identify(given);
  };
  const slow = withMember(master, 'logins', withMember(master.logins, 'identify', identify));
  const api = await createSaltApi(slow, { streamsPerToken: 1 });
  t.teardown(() => api.close());
  const server = createServer((request, response) => api.handle(request, response));
  server.on('upgrade', api.upgrade);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  const body = { username: 'admin', password, eauth: 'sharedsecret' };
  const login = { method: 'POST', path: '/login', headers: json(), body };
  const token = String((await send(port, login)).headers['x-auth-token']);
  const ended = Promise.withResolvers<void>();
  server.once('connection', (socket) => socket.once('close', () => ended.resolve()));
  const client = connect(port, '127.0.0.1');
  const upgrade =
    'Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n';
  client.write(
    `GET ${kind}${token} HTTP/1.1\r\nHost: localhost\r\n${kind === '/ws/' ? upgrade : ''}\r\n`,
  );
  await asked.promise;
  client.resetAndDestroy();
  await ended.promise;
  answer.resolve();
  for (let tries = 0; ; tries += 1) {
    const { statusCode } = (await open(t, port, json(token))).response;
    if (statusCode === 200 || tries === 20) {
      t.is(statusCode, 200);
      return;
    }
  }
}

test('a WebSocket that ends while its token is checked holds no place', (t) =>
  leavesNoStream(t, '/ws/'));

test('an event stream that ends while its token is checked holds no place', (t) =>
  leavesNoStream(t, '/events?token='));

test('WebSocket sends nothing until its client is ready, then every event', async (t) => {
  const { port, login, master } = await startApi(t, { minions: [] });
  const token = await login();
  const client = await upgrade(t, port, `/ws/${token}`);
  const head = await client.until('\r\n\r\n');
  t.regex(
    head.toString(),
    /^HTTP\/1\.1 101 [\s\S]*Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=\r\n/,
  );
  await master.events.fire('before/ready', {});
  client.write(clientFrame('websocket client ready'));
  await client.until('server received message');
  await master.events.fire('after/ready', { a: 1 });
  const bytes = await client.until('after/ready');
  const frames = framesOf(bytes.subarray(head.indexOf('\r\n\r\n') + 4));
  t.is(frames[0], 'server received message');
  t.is(frames.length, 2);
  t.regex(String(frames[1]), /^data: \{"tag": "after\/ready", "data": \{.*\}\}\n\n$/);
  await master.logins.revoke({ user: 'admin' });
  await within('the end of a WebSocket', client.closed);
});

test('a WebSocket whose client is not ready ends with its log-in, or after a time', async (t) => {
  const { port, ask, login } = await startApi(t, { minions: [], options: { streams: 4 } });
  const token = await login('noperms');
  const clients = await Promise.all([1, 2].map(() => upgrade(t, port, `/ws/${token}`)));
  for (const client of clients) await client.until('\r\n\r\n');
  const busy = await upgrade(t, port, `/ws/${token}`);
  await busy.until('429');
  await ask({ method: 'POST', path: '/logout', headers: json(token), body: {} });
  for (const { closed } of clients) await within('the end of a WebSocket', closed);
  const api = await startApi(t, { minions: [], options: { requestTimeoutMs: 300 } });
  const late = await upgrade(t, api.port, `/ws/${await api.login('noperms')}`);
  await late.until('\r\n\r\n');
  await within('the end of a WebSocket', late.closed);
  t.pass();
});

test('a WebSocket client that floods the server with messages is disconnected', async (t) => {
  const { port, login } = await startApi(t, { minions: [] });
  const client = await upgrade(t, port, `/ws/${await login('noperms')}`);
  await client.until('\r\n\r\n');
  client.write(Buffer.alloc(6 * 10_000, clientFrame('')));
  await within('the end of a WebSocket', client.closed);
  const received = String(await client.until('server received message'));
  // The stream contains the event for each permitted tag, and others that fitted into the time.
  t.true(received.split('server received message').length < 1000);
});

test('the server stops reading from a WebSocket client that does not read', async (t) => {
  const { api, login, master } = await startApi(t, { minions: [] });
  const token = await login();
  let take: (() => void) | undefined;
  let written = '';
  let isStuck = false;
  const client = new Duplex({
    read: () => {},
    write: (chunk: Buffer, _encoding, done) => {
      written += chunk.toString('latin1');
      if (isStuck) take = () => done();
      else done();
    },
  });
  t.teardown(() => client.destroy());
  api.upgrade(upgradeRequest(`/ws/${token}`), client, Buffer.alloc(0));
  await until('the handshake', () => written.includes('\r\n\r\n'));
  client.push(clientFrame('websocket client ready'));
  await until('the confirmation', () => written.includes('server received message'));
  isStuck = true;
  await master.events.fire('my/tag', { text: 'x'.repeat(200_000) });
  await until('the event', () => take !== undefined);
  client.push(clientFrame('more'));
  await until('the end of reading', () => client.isPaused());
  isStuck = false;
  take?.();
  await until('reading', () => !client.isPaused());
  t.regex(written, /server received message$/);
});

test('a refused WebSocket is closed, whatever its client does', async (t) => {
  const { port } = await startApi(t, { minions: [] });
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  t.teardown(() => socket.destroy());
  const { method, url, headers } = upgradeRequest('/ws');
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${String(value)}\r\n`);
  socket.write(`${method} ${url} HTTP/1.1\r\n${lines.join('')}\r\n`);
  socket.resume();
  // The client does not end its side of the connection. It only notices that the server is gone.
  socket.on('error', () => {});
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  const poke = setInterval(() => socket.write('x'), 20);
  t.teardown(() => clearInterval(poke));
  await within('the end of a refused connection', closed);
  t.pass();
});

test('WebSocket requires a session, and a cookie is refused for pages of other sites', async (t) => {
  const { port, login } = await startApi(t, { minions: [] });
  const token = await login();
  const refused: [path: string, header: string][] = [
    ['/ws', ''],
    ['/ws/deadbeef', ''],
    ['/ws', `Cookie: session_id=${token}\r\nOrigin: http://evil.example\r\n`],
  ];
  for (const [path, header] of refused) {
    const client = await upgrade(t, port, path, header);
    t.regex(String(await client.until('\r\n\r\n')), /^HTTP\/1\.1 401 /);
    await within('the end of a refused connection', client.closed);
  }
  const missing = await upgrade(t, port, '/nosuch');
  t.regex(String(await missing.until('\r\n\r\n')), /^HTTP\/1\.1 404 /);
  for (const [path, header] of [
    ['/ws', `X-Auth-Token: ${token}\r\n`],
    ['/ws', `Cookie: session_id=${token}\r\n`],
  ] as const) {
    const client = await upgrade(t, port, path, header);
    t.regex(String(await client.until('\r\n\r\n')), /^HTTP\/1\.1 101 /);
  }
});

/** Returns a request as a server passes it to `upgrade`. */
function upgradeRequest(url: string): IncomingMessage {
  const socket = new Socket();
  Object.defineProperty(socket, 'remoteAddress', { value: '127.0.0.1' });
  const request = new IncomingMessage(socket);
  const headers = {
    host: 'localhost',
    upgrade: 'websocket',
    connection: 'Upgrade',
    'sec-websocket-version': '13',
    'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
  };
  const rawHeaders = Object.entries(headers).flat();
  return Object.assign(request, { method: 'GET', url, httpVersion: '1.1', headers, rawHeaders });
}
