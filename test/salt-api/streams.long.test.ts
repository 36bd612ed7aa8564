/** Readers of events that reconnect, and readers that request only some events. */

import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import test, { type ExecutionContext } from 'ava';
import { within } from '../helpers/deadline.ts';
import { openEvents as open, openEvents } from '../helpers/event-reader.ts';
import { json, mayRead, password, startApi } from '../helpers/salt-api.ts';
import { clientFrame, framesOf, upgrade } from '../helpers/websocket-reader.ts';

const ring = { config: { eventRing: { entries: 100, bytes: 1_048_576 } }, minions: [] };

test('a stream continues after the last event that its reader received', async (t) => {
  const { port, login, master } = await startApi(t, ring);
  const token = json(await login());
  const before = await openEvents(t, port, token);
  await master.events.fire('my/first', {});
  const text = await before.until(/id: .*\n\n/);
  const [, id = ''] = /^data: .*\nid: ([0-9a-f]+-\d+)\n$/m.exec(text) ?? [];
  t.not(id, '');
  before.response.destroy();
  await master.events.fire('my/second', {});
  const after = await openEvents(t, port, { ...token, 'last-event-id': id });
  await master.events.fire('my/third', {});
  await after.until(/my\/third.*\n/);
  t.deepEqual(after.tags, ['my/second', 'my/third']);
  const byQuery = await openEvents(t, port, token, `?last_event_id=${id}&match=*/third`);
  await byQuery.until(/my\/third.*\n/);
  t.deepEqual(byQuery.tags, ['my/third']);
});

test('a reader whose events were evicted is informed', async (t) => {
  const { port, login } = await startApi(t, ring);
  const headers = { ...json(await login()), 'last-event-id': '0123456789ab-7' };
  const reader = await openEvents(t, port, headers);
  await reader.until(/^data: /m);
  t.is(reader.tags[0], 'saltbridge/events/missed');
});

test('several patterns match an event that any of them matches', async (t) => {
  const { port, login, master } = await startApi(t, { minions: [] });
  const reader = await openEvents(t, port, json(await login()), '?match=a/*&match=c');
  for (const tag of ['a/1', 'b', 'c']) await master.events.fire(tag, {});
  await reader.until(/tag: c\n/);
  t.deepEqual(reader.tags, ['a/1', 'c']);
});

test('a user reads only permitted events, also from the ring', async (t) => {
  const { port, login, master } = await startApi(t, {
    ...ring,
    config: { ...ring.config, ...mayRead('limited', 'open/*') },
  });
  const limited = json(await login('limited'));
  for (const tag of ['open/1', 'secret', 'open/2']) await master.events.fire(tag, {});
  const headers = { ...limited, 'last-event-id': '0123456789ab-7' };
  const reader = await openEvents(t, port, headers);
  await reader.until(/open\/2.*\n/);
  t.deepEqual(reader.tags, ['saltbridge/events/missed', 'open/1', 'open/2']);
});

test('over WebSocket, patterns and ids are in the query, and ids are sent to clients that support them', async (t) => {
  const { port, login, master } = await startApi(t, ring);
  const token = await login();
  const client = await upgrade(t, port, `/ws/${token}?match=my/*&last_event_id=`);
  const head = await client.until('\r\n\r\n');
  client.write(clientFrame('websocket client ready'));
  await client.until('server received message');
  await master.events.fire('your/tag', {});
  await master.events.fire('my/tag', {});
  const bytes = await client.until('my/tag');
  const [, event = ''] = framesOf(bytes.subarray(head.indexOf('\r\n\r\n') + 4));
  const { id, tag } = JSON.parse(event.slice(6));
  t.is(tag, 'my/tag');
  await master.events.fire('my/next', {});
  const again = await upgrade(t, port, `/ws/${token}?match=my/*&last_event_id=${id}`);
  again.write(clientFrame('websocket client ready'));
  await again.until('my/next');
  t.false((await again.until('my/next')).includes('my/tag'));
});

test("format_events sends jobs and minions in Salt's form", async (t) => {
  const { port, login, master } = await startApi(t, { minions: ['web1'] });
  const client = await upgrade(t, port, `/ws/${await login()}?format_events`);
  const head = await client.until('\r\n\r\n');
  client.write(clientFrame('websocket client ready'));
  await client.until('server received message');
  for await (const _ of master.jobs.run({ tgt: 'web1', fun: 'test.ping' }));
  const bytes = await client.until('complete');
  const frames = framesOf(bytes.subarray(head.indexOf('\r\n\r\n') + 4)).slice(1);
  const [job] = Object.values(JSON.parse(frames.at(-1) ?? '').jobs);
  t.like(job, {
    fun: 'test.ping',
    tgt: 'web1',
    tgt_type: 'glob',
    state: 'complete',
    minions: { web1: { success: true, return: true, retcode: 0 } },
  });
  await master.events.fire('salt/key', { id: 'web2', act: 'accept', result: true });
  await client.until('"minions": [{"id": "web2"}]');
});

// Event streams with large events or slow readers.

for (const [form, path] of [
  ['/events', '/events'],
  ['/rpc', '/rpc/events.subscribe'],
] as const) {
  test(`over ${form}, a slow reader is informed that events are missing, and disconnected`, async (t) => {
    const { port, login, master, ask } = await startApi(t, {
      minions: [],
      options: { streams: 1 },
    });
    const headers = json(await login());
    const reader = await open(t, port, headers, '', path);
    reader.response.pause();
    // However large the buffers are, they are full at some time. The slot is free when the stream
    // was ended.
    const text = 'x'.repeat(500_000);
    let fired = 0;
    for (let isOpen = true; isOpen; fired += 4) {
      for (let count = 0; count < 4; count += 1) await master.events.fire('my/tag', { text });
      const other = await open(t, port, headers);
      isOpen = other.response.statusCode !== 200;
      other.response.destroy();
    }
    // Two of the events wait here, and the system buffers some more.
    t.true(fired < 200, `${fired} events`);
    reader.response.resume();
    await within('the end of a stream', reader.ended);
    t.true(reader.response.complete);
    t.regex(reader.text.slice(-500), /saltbridge\/events\/missed/);
    t.is((await ask({ path: '/', headers })).status, 200);
  });
}

test('events of 5 MB reach each reader, over every stream', async (t) => {
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
  for (const bytes of await within('all events', Promise.all(read))) {
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

/** Returns everything that is received, until a word near the end. */
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

// Requests of salt-netapi-client, SUSE's Java library, and the strictness of its parser.

type Fields = Readonly<Record<string, unknown>>;

/** Returns the first element of `return`. */
function first(answer: { readonly json: unknown }): Fields {
  const [element] = (answer.json as { readonly return: readonly Fields[] }).return;
  return element ?? {};
}

test('a log-in contains numeric times and a list of rights', async (t) => {
  const { ask } = await startApi(t, {
    minions: [],
    config: { externalAuth: { sharedsecret: { admin: ['.*', '@runner', '@wheel'] } } },
  });
  const body = { username: 'admin', password, eauth: 'sharedsecret' };
  const answer = await ask({ method: 'POST', path: '/login', headers: json(), body });
  t.is(answer.status, 200);
  const { start, expire, perms, token, user, eauth } = first(answer);
  t.deepEqual([typeof start, typeof expire, typeof token], ['number', 'number', 'string']);
  t.deepEqual([user, eauth, perms], ['admin', 'sharedsecret', ['.*', '@runner', '@wheel']]);
});

test('a call accepts all its keywords, including those of SUSE, with a session or a password', async (t) => {
  const { ask, login } = await startApi(t, { minions: ['web1'] });
  const token = await login();
  const call = {
    client: 'local',
    tgt: ['web1'],
    tgt_type: 'list',
    fun: 'test.arg',
    arg: ['one', 2, true],
    kwarg: { key: 'value' },
    metadata: { origin: 'java' },
    timeout: 10,
    gather_job_timeout: 10,
    module_executors: ['direct_call'],
    executor_opts: {},
    batch_delay: 1,
    batch_presence_ping_timeout: 5,
    batch_presence_ping_gather_job_timeout: 5,
  };
  const headers = json(token);
  const session = await ask({ method: 'POST', path: '/', headers, body: [call] });
  const credentials = { username: 'admin', password, eauth: 'sharedsecret' };
  const body = [{ ...call, ...credentials }];
  const alone = await ask({ method: 'POST', path: '/run', headers: json(), body });
  for (const answer of [session, alone]) {
    t.is(answer.status, 200, answer.text);
    const { web1 } = first(answer) as { readonly web1: { args: unknown; kwargs: Fields } };
    t.deepEqual(web1.args, ['one', 2, true], 'numbers and booleans are not made texts');
    t.is(web1.kwargs.key, 'value');
  }
  const batch = { client: 'local', tgt: '*', fun: 'test.ping', batch: '1' };
  t.deepEqual(first(await ask({ method: 'POST', path: '/', headers, body: [batch] })), {
    web1: true,
  });
});

test('arguments of runners are in kwarg, and those of wheel functions at the top level', async (t) => {
  const { run, login } = await startApi(t, { minions: ['web1'], pending: ['new1'] });
  const token = await login();
  const started = await run(token, [{ client: 'local_async', tgt: '*', fun: 'test.ping' }]);
  const { jid, minions } = first(started);
  t.deepEqual(minions, ['web1']);
  t.deepEqual(
    first(await run(token, [{ client: 'local_async', tgt: 'no*', fun: 'test.ping' }])),
    {},
  );
  const job = first(await run(token, [{ client: 'runner', fun: 'jobs.list_job', kwarg: { jid } }]));
  t.regex(String(job.StartTime), /^\d{4}, [A-Z][a-z]{2} \d{2} \d{2}:\d{2}:\d{2}\.\d{6}$/);
  t.deepEqual([job.Target, job['Target-type']], ['*', 'glob']);
  const wheel = first(await run(token, [{ client: 'wheel', fun: 'key.accept', match: 'new1' }]));
  const data = wheel.data as Fields;
  t.regex(String(wheel.tag), /^salt\/wheel\/\d{20}$/);
  t.deepEqual([data.success, data.return], [true, { minions: ['new1'] }]);
});

test('a minion answers a call of an unknown function with the text that clients expect', async (t) => {
  const { run, login } = await startApi(t, { minions: ['web1'] });
  const low = [{ client: 'local', tgt: 'web1', fun: 'no.such' }];
  t.deepEqual(first(await run(await login(), low)), { web1: "'no.such' is not available." });
});

test('results of asynchronous jobs and runners arrive over WebSocket', async (t) => {
  const { port, run, login } = await startApi(t, { minions: ['web1'] });
  const token = await login();
  const socket = await upgrade(t, port, `/ws/${token}`);
  const head = await socket.until('\r\n\r\n');
  socket.write(clientFrame('websocket client ready'));
  await socket.until('server received message');
  const job = first(await run(token, [{ client: 'local_async', tgt: '*', fun: 'test.ping' }]));
  await socket.until(`salt/job/${job.jid}/ret/web1`);
  const asked = [{ client: 'runner_async', fun: 'jobs.list_job', kwarg: { jid: job.jid } }];
  const runner = first(await run(token, asked));
  const bytes = await socket.until(`salt/run/${runner.jid}/ret`);
  const events = framesOf(bytes.subarray(head.indexOf('\r\n\r\n') + 4))
    .filter((text) => text.startsWith('data: '))
    .map((text): { tag: string; data: Fields } => JSON.parse(text.slice(6)));
  const returned = events.find(({ tag }) => tag === `salt/job/${job.jid}/ret/web1`)?.data;
  t.deepEqual([returned?.retcode, returned?.success, returned?.return], [0, true, true]);
  const runnerEvent = events.find(({ tag }) => tag === `salt/run/${runner.jid}/ret`)?.data;
  t.like(runnerEvent, { success: true, return: { Function: 'test.ping' } });
});

test('a log-out without a body reports that the token is cleared', async (t) => {
  const { ask, login } = await startApi(t, { minions: [] });
  const headers = { ...json(), cookie: `session_id=${await login()}` };
  const answer = await ask({ method: 'POST', path: '/logout', headers });
  t.deepEqual(answer.json, { return: 'Your token has been cleared' });
});
