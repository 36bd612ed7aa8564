import { createHmac, hash } from 'node:crypto';
import test, { type ExecutionContext } from 'ava';
import fc from 'fast-check';
import { BridgeError } from '#heat-bridge';
import { errorTextOf, redactSecrets } from '#heat-bridge/openstack/service-answer.ts';
import { DeadLetterList } from '#heat-bridge/signals/dead-letters.ts';
import { DeliveredList } from '#heat-bridge/signals/delivered-signals.ts';
import { parseSignalTag } from '#heat-bridge/signals/handles.ts';
import { Outbox } from '#heat-bridge/signals/outbox.ts';
import { decodeRecord, encodeRecord } from '#heat-bridge/signals/outbox-records.ts';
import { upgradeRecords } from '#heat-bridge/signals/outbox-upgrade.ts';
import { parseSignal, signalId } from '#heat-bridge/signals/signal.ts';
import { HandleTokenCache } from '#heat-bridge/transports/handle-tokens.ts';
import { writeJson } from '#runtime';
import { memoryState, openTestSignals, type SignalsUnderTest } from './open-signals.ts';
import { type Answerer, always, type Recorder, recorderFor, startRecorder } from './recorder.ts';

const accepted = always(200, 'null');

function handle(origin: string, alias = 'ready', more: object = {}) {
  const signal = {
    endpoint: `${origin}/v1/p/stacks/s/1/resources/${alias}/signal`,
    token: 'tOken',
  };
  return { alias, minions: ['m1', 'm2'], signal, ...more };
}

/** Returns the ids and data that a service received, in order. */
function sent({ requests }: Recorder): { id: string; data: unknown }[] {
  return requests.map(({ body }) => JSON.parse(body)).map(({ id, data }) => ({ id, data }));
}

test('a signal reaches its handle under the id of the minion', async (t) => {
  const service = await recorderFor(t, accepted);
  const { handles, signal, told } = await openTestSignals(t, [service.origin]);
  await handles.add(handle(service.origin));
  await signal('m1', 'heat/ready', { reason: 'booted', data: { ip: '192.0.2.7' } });
  await told('signal/delivered');
  t.deepEqual(JSON.parse(service.requests[0]?.body ?? ''), {
    status: 'SUCCESS',
    reason: 'booted',
    data: { ip: '192.0.2.7' },
    id: 'm1',
  });
  t.is(service.requests[0]?.headers['x-auth-token'], 'tOken');
});

test('a minion that signals three times does so under one id', async (t) => {
  const service = await recorderFor(t, accepted);
  const { handles, signal, told } = await openTestSignals(t, [service.origin]);
  await handles.add(handle(service.origin));
  for (const data of [1, 2, 3]) await signal('m1', 'heat/ready', { data });
  await told('signal/delivered', 3);
  t.deepEqual(sent(service), [
    { id: 'm1', data: 1 },
    { id: 'm1', data: 2 },
    { id: 'm1', data: 3 },
  ]);
});

test('a second signal under an id waits while Heat may not have stored the first, but others do not', async (t) => {
  const service = await recorderFor(t, accepted);
  const section = { same_id_wait: 60 };
  const { handles, outbox, signal, told } = await openTestSignals(t, [service.origin], { section });
  await handles.add(handle(service.origin));
  for (const data of [1, 2]) await signal('m1', 'heat/ready', { data });
  await signal('m2', 'heat/ready', { data: 1 });
  await told('signal/delivered', 2);
  t.deepEqual(sent(service), [
    { id: 'm1', data: 1 },
    { id: 'm2', data: 1 },
  ]);
  const left = await outbox.list();
  t.deepEqual(
    left.map(({ minion, state }) => ({ minion, state })),
    [{ minion: 'm1', state: 'waiting' }],
  );
});

test('a second signal under an id is sent after the wait', async (t) => {
  const times: number[] = [];
  const service = await recorderFor(t, (request, response) => {
    times.push(performance.now());
    accepted(request, response);
  });
  const section = { same_id_wait: 0.2 };
  const { handles, signal, told } = await openTestSignals(t, [service.origin], { section });
  await handles.add(handle(service.origin));
  for (const data of [1, 2]) await signal('m1', 'heat/ready', { data });
  await told('signal/delivered', 2);
  const [first = 0, second = 0] = times;
  t.true(second - first >= 190, `${second - first} ms`);
});

test('signals that wait for the same id are dropped when their handle is removed', async (t) => {
  const service = await recorderFor(t, accepted);
  const section = { same_id_wait: 0.2 };
  const { handles, signal, told } = await openTestSignals(t, [service.origin], { section });
  await handles.add(handle(service.origin));
  for (const data of [1, 2]) await signal('m1', 'heat/ready', { data });
  await told('signal/delivered');
  await handles.remove('ready');
  const [failed] = await told('signal/failed');
  t.is(failed?.data.reason, 'the handle was removed');
});

test('each member of one minion counts separately, and only declared ones', async (t) => {
  const service = await recorderFor(t, accepted);
  const { handles, signal, told } = await openTestSignals(t, [service.origin]);
  await handles.add(handle(service.origin, 'ready', { members: ['db', 'web'] }));
  for (const member of ['db', 'web', 'other']) await signal('m1', `heat/ready/${member}`);
  await signal('m1', 'heat/ready');
  await told('signal/delivered', 2);
  await told('signal/refused', 2);
  t.deepEqual(
    sent(service).map(({ id }) => id),
    ['m1/db', 'm1/web'],
  );
});

test('signals of a minion that the handle does not name are not sent', async (t) => {
  const service = await recorderFor(t, accepted);
  const { handles, signal, told, outbox } = await openTestSignals(t, [service.origin]);
  await handles.add(handle(service.origin));
  await signal('m3', 'heat/ready');
  await signal('m1', 'heat/ready');
  await told('signal/delivered');
  t.deepEqual(
    sent(service).map(({ id }) => id),
    ['m1'],
  );
  t.deepEqual(
    (await outbox.list()).map(({ minion, state }) => [minion, state]),
    [['m3', 'held']],
  );
});

test('the next process delivers accepted signals', async (t) => {
  const service = await recorderFor(t, accepted);
  const state = memoryState();
  const first = await openTestSignals(t, [service.origin], { state, isStarted: false });
  await first.handles.add(handle(service.origin));
  for (const data of [1, 2]) await first.signal('m1', 'heat/ready', { data });
  await first.close();
  t.is(service.requests.length, 0);
  const second = await openTestSignals(t, [service.origin], { state });
  await second.told('signal/delivered', 2);
  t.deepEqual(
    sent(service).map(({ data }) => data),
    [1, 2],
  );
});

test('a repeated request adds nothing, even in the next process', async (t) => {
  const service = await recorderFor(t, accepted);
  const state = memoryState();
  const first = await openTestSignals(t, [service.origin], { state, isStarted: false });
  await first.handles.add(handle(service.origin));
  const both = [0, 1].map(() => first.signal('m1', 'heat/ready', {}, 'nonce'));
  await Promise.all(both);
  await first.signal('m1', 'heat/ready', {}, 'nonce');
  await first.close();
  const second = await openTestSignals(t, [service.origin], { state, isStarted: false });
  await second.signal('m1', 'heat/ready', {}, 'nonce');
  t.is((await second.outbox.list()).length, 1);
  await second.signal('m2', 'heat/ready', {}, 'nonce');
  t.is((await second.outbox.list()).length, 2);
});

test('a handle has one signal in flight, and signals arrive in order', async (t) => {
  let inFlight = 0;
  let most = 0;
  const service = await recorderFor(t, (_request, response) => {
    inFlight += 1;
    most = Math.max(most, inFlight);
    setImmediate(() => {
      inFlight -= 1;
      response.writeHead(200).end('null');
    });
  });
  const { handles, signal, told } = await openTestSignals(t, [service.origin]);
  await handles.add(handle(service.origin));
  const numbers = Array.from({ length: 30 }, (_, index) => index);
  await Promise.all(numbers.map((data) => signal('m1', 'heat/ready', { data })));
  await told('signal/delivered', 30);
  t.is(most, 1);
  t.deepEqual(
    sent(service).map(({ data }) => data),
    numbers,
  );
});

const passing: readonly (readonly [string, Answerer])[] = [
  ['answers 500', always(500)],
  ['answers 503', always(503)],
  ['answers 429', always(429)],
  ['takes the signal and loses the answer', (_request, response) => response.destroy()],
];

for (const [what, answer] of passing) {
  test(`after a service ${what}, the signal is repeated under the same id, and the next one waits`, async (t) => {
    const service = await recorderFor(t, answer);
    const { handles, signal, told } = await openTestSignals(t, [service.origin]);
    await handles.add(handle(service.origin));
    await signal('m1', 'heat/ready', { data: 1 });
    await signal('m2', 'heat/ready', { data: 2 });
    await service.heard(3);
    service.answer = accepted;
    await told('signal/delivered', 2);
    const all = sent(service);
    t.deepEqual(all.at(-1), { id: 'm2', data: 2 });
    t.true(all.slice(0, -1).every(({ id }) => id === 'm1'));
  });
}

const lastWords: readonly (readonly [string, number, string, string])[] = [
  [
    "Heat's JSON",
    404,
    '{"code": 404, "title": "Not Found", "explanation": "The resource could not be found.", "error": {"type": "EntityNotFound", "message": "The Stack (s) could not be found."}}',
    'answered 404: The Stack (s) could not be found.',
  ],
  [
    "heat-api-cfn's XML",
    403,
    '<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>User is not authorized to perform action</Message></Error></ErrorResponse>',
    'answered 403: AccessDenied: User is not authorized to perform action',
  ],
  [
    "Swift's text",
    401,
    '401 Unauthorized: Temp URL invalid\n',
    'answered 401: 401 Unauthorized: Temp URL invalid',
  ],
  ['nothing', 405, '', 'answered 405'],
  ['a redirection', 302, '', 'answered 302'],
  ['control characters', 400, 'a\u001b[2Jb\u202e', 'answered 400: a [2Jb'],
];

for (const [what, status, body, reason] of lastWords) {
  test(`a refusal with ${what} ends after one request, with the text of the service`, async (t) => {
    const service = await recorderFor(t, always(status, body));
    const { handles, signal, told, outbox } = await openTestSignals(t, [service.origin]);
    await handles.add(handle(service.origin));
    await signal('m1', 'heat/ready');
    await told('signal/failed');
    const [entry] = await outbox.list();
    t.is(entry?.state, 'dead');
    t.is(entry?.reason, reason);
    t.is(service.requests.length, 1);
  });
}

test('after a signal is given up, the next one is sent', async (t) => {
  const service = await recorderFor(t, ({ body }, response) => {
    response.writeHead(body.includes('m1') ? 403 : 200).end();
  });
  const { handles, signal, told, outbox } = await openTestSignals(t, [service.origin]);
  await handles.add(handle(service.origin));
  await signal('m1', 'heat/ready');
  await signal('m2', 'heat/ready');
  await told('signal/delivered');
  t.deepEqual(
    (await outbox.list()).map(({ minion, state }) => [minion, state]),
    [['m1', 'dead']],
  );
});

test('a signal for an endpoint that is not listed is put into the dead-letter list unsent', async (t) => {
  const service = await recorderFor(t, accepted);
  const { handles, signal, told, outbox } = await openTestSignals(t, []);
  const { isListed } = await handles.add(handle(service.origin));
  t.false(isListed);
  await signal('m1', 'heat/ready');
  await told('signal/failed');
  const [entry] = await outbox.list();
  t.is(entry?.reason, `${service.origin} is not listed under handles: endpoints`);
  t.is(service.requests.length, 0);
});

test('a service that never responds does not delay others', async (t) => {
  const [slow, quick] = [await recorderFor(t, () => {}), await recorderFor(t, accepted)];
  const { handles, signal, told } = await openTestSignals(t, [slow.origin, quick.origin]);
  await handles.add(handle(quick.origin, 'quick'));
  for (let index = 0; index < 20; index += 1) {
    await handles.add(handle(slow.origin, `slow${index}`));
    await signal('m1', `heat/slow${index}`);
  }
  await slow.heard(8);
  await signal('m1', 'heat/quick');
  const [delivered] = await told('signal/delivered');
  t.is(delivered?.data.handle, 'quick');
  t.is(slow.requests.length, 8);
});

test('quotas of minion and stack leave space for the others', async (t) => {
  const section = { per_minion: 2, per_stack: 3 };
  const { handles, signal, told, outbox } = await openTestSignals(t, [], {
    section,
    isStarted: false,
  });
  for (const alias of ['a', 'b'])
    await handles.add(handle('http://127.0.0.1:1', alias, { stack: 's' }));
  await handles.add(handle('http://127.0.0.1:1', 'c'));
  for (const alias of ['a', 'b', 'a']) await signal('m1', `heat/${alias}`);
  for (const alias of ['a', 'b']) await signal('m2', `heat/${alias}`);
  await signal('m2', 'heat/c');
  const refused = await told('signal/refused', 2);
  t.deepEqual(
    refused.map(({ data }) => data.reason),
    ['too many signals of this minion are pending', 'too many signals are pending for this stack'],
  );
  t.is((await outbox.list()).length, 4);
});

test('space is released when a signal is done', async (t) => {
  const service = await recorderFor(t, accepted);
  const section = { per_minion: 1 };
  const { handles, signal, told } = await openTestSignals(t, [service.origin], { section });
  await handles.add(handle(service.origin));
  for (let count = 1; count <= 3; count += 1) {
    await signal('m1', 'heat/ready');
    await told('signal/delivered', count);
  }
  t.is(service.requests.length, 3);
});

test('an expired handle ends its signals, with the last reason', async (t) => {
  const service = await recorderFor(t, always(503, 'down for a while'));
  let now = Date.now();
  const { handles, signal, told, outbox } = await openTestSignals(t, [service.origin], {
    now: () => now,
  });
  await handles.add(handle(service.origin, 'ready', { expiresAt: now + 60_000 }));
  await signal('m1', 'heat/ready');
  await service.heard(2);
  now += 60_000;
  await told('signal/failed');
  const [entry] = await outbox.list();
  t.is(
    entry?.reason,
    'the handle has expired; reason of the last failed delivery: answered 503: down for a while',
  );
  await signal('m1', 'heat/ready');
  const [refused] = await told('signal/refused');
  t.is(refused?.data.reason, 'the handle has expired');
});

test('a handle whose secrets cannot be opened keeps its signals until it expires', async (t) => {
  let now = Date.now();
  const unseal = (): never => {
    throw new Error('another seal');
  };
  const state = { ...memoryState(), unseal };
  const { handles, signal, told, outbox } = await openTestSignals(t, [], { state, now: () => now });
  await handles.add(handle('http://127.0.0.1:1', 'ready', { expiresAt: now + 60_000 }));
  await signal('m1', 'heat/ready');
  while ((await outbox.list())[0]?.failures === 0) await new Promise(setImmediate);
  now += 60_000;
  const [failed] = await told('signal/failed');
  t.is(failed?.data.reason, 'the handle has expired');
});

test('a later handle of the same alias inherits no signal', async (t) => {
  const [old, young] = [await recorderFor(t, always(503)), await recorderFor(t, accepted)];
  const { handles, signal, told, outbox } = await openTestSignals(t, [old.origin, young.origin]);
  await handles.add(handle(old.origin));
  await signal('m1', 'heat/ready', { data: 'old' });
  await old.heard(1);
  await handles.remove('ready');
  await handles.add(handle(young.origin));
  const [failed] = await told('signal/failed');
  t.is(failed?.data.reason, 'the handle was removed');
  await t.throwsAsync(outbox.retry({}), { instanceOf: BridgeError, code: 'ERR_HANDLE_UNKNOWN' });
  t.is(young.requests.length, 0);
});

test('a replaced handle keeps its signals, which use its new destination', async (t) => {
  const [old, young] = [await recorderFor(t, always(503)), await recorderFor(t, accepted)];
  const { handles, signal, told } = await openTestSignals(t, [old.origin, young.origin]);
  await handles.add(handle(old.origin));
  await signal('m1', 'heat/ready');
  await old.heard(1);
  await t.throwsAsync(handles.add(handle(young.origin)), {
    instanceOf: BridgeError,
    code: 'ERR_HANDLE_EXISTS',
  });
  await handles.add(handle(young.origin), { replaces: true });
  await told('signal/delivered');
  t.is(young.requests.length, 1);
});

test('a signal that was given up can be retried, after the others', async (t) => {
  const service = await recorderFor(t, always(403));
  const { handles, signal, told, outbox } = await openTestSignals(t, [service.origin]);
  await handles.add(handle(service.origin));
  await signal('m1', 'heat/ready', { data: 1 });
  await told('signal/failed');
  service.answer = accepted;
  const [entry] = await outbox.list({ isDead: true });
  await outbox.retry({ id: entry?.id ?? '' });
  await told('signal/delivered');
  t.deepEqual(sent(service).at(-1), { id: 'm1', data: 1 });
  t.deepEqual(await outbox.list(), []);
  await t.throwsAsync(outbox.retry({ id: entry?.id ?? '' }), { code: 'ERR_SIGNAL_UNKNOWN' });
});

test('signals can be dropped, whether waiting or given up', async (t) => {
  const service = await recorderFor(t, always(503));
  const { handles, signal, outbox } = await openTestSignals(t, [service.origin]);
  await handles.add(handle(service.origin));
  for (const minion of ['m1', 'm2']) await signal(minion, 'heat/ready');
  await service.heard(1);
  const entries = await outbox.list();
  await outbox.drop({ id: entries[1]?.id ?? '' });
  t.is((await outbox.list()).length, 1);
  await outbox.drop({ alias: 'ready' });
  t.deepEqual(await outbox.list(), []);
  await t.throwsAsync(outbox.drop({ id: 'none' }), { code: 'ERR_SIGNAL_UNKNOWN' });
});

test('the token appears in no reply, event, reason or row of the store', async (t) => {
  const state = memoryState();
  const service = await recorderFor(t, always(403, 'bad token tOken, sorry'));
  const { handles, signal, told, outbox, fired } = await openTestSignals(t, [service.origin], {
    state,
  });
  const shown: unknown[] = [await handles.add(handle(service.origin)), await handles.list()];
  await signal('m1', 'heat/ready');
  await told('signal/failed');
  shown.push(await handles.show('ready'), await outbox.list(), fired);
  for await (const { value } of state.list([])) shown.push(Buffer.from(value).toString('latin1'));
  t.true(JSON.stringify(shown).includes('bad token (secret), sorry'));
  t.false(JSON.stringify(shown).includes('tOken'));
});

test('a secret is removed from a long response before the response is shortened', async (t) => {
  const text = `${'x'.repeat(270)} tOken-of-the-handle`;
  const service = await recorderFor(t, always(403, text));
  const { handles, signal, told, outbox } = await openTestSignals(t, [service.origin]);
  const signalWithToken = { endpoint: `${service.origin}/signal`, token: 'tOken-of-the-handle' };
  await handles.add({ alias: 'ready', minions: ['m1'], signal: signalWithToken });
  await signal('m1', 'heat/ready');
  await told('signal/failed');
  const reason = (await outbox.list())[0]?.reason ?? '';
  t.true(reason.startsWith('answered 403: xxx'), reason);
  t.true(reason.length <= 300);
  t.false(reason.includes('tOken'), reason);
});

test('handles survive the process, and an unknown handle is reported as such', async (t) => {
  const state = memoryState();
  const first = await openTestSignals(t, [], { state });
  const info = await first.handles.add(handle('http://127.0.0.1:1', 'ready', { owner: 'p1' }));
  await first.close();
  const { handles } = await openTestSignals(t, [], { state });
  t.deepEqual(await handles.show('ready'), info);
  t.deepEqual(await handles.list({ owner: 'p1' }), [info]);
  t.deepEqual(await handles.list({ owner: 'p2' }), []);
  await handles.remove('ready');
  await t.throwsAsync(handles.show('ready'), { code: 'ERR_HANDLE_UNKNOWN' });
});

const malformed: readonly (readonly [string, object])[] = [
  ['an alias with a slash', { alias: 'a/b' }],
  ['no minion', { minions: [] }],
  ['neither minions nor groups', { minions: undefined }],
  ['a nodegroup that is not defined', { nodegroups: ['nowhere'] }],
  ['a field that does not exist', { minion: 'm1' }],
  ['an end that is over', { expiresAt: 1 }],
];

for (const [what, more] of malformed) {
  test(`a handle with ${what} is refused`, async (t) => {
    const { handles } = await openTestSignals(t, []);
    await t.throwsAsync(handles.add({ ...handle('http://127.0.0.1:1'), ...more }), {
      instanceOf: BridgeError,
      code: 'ERR_HANDLE_FORM',
    });
  });
}

// Signals that arrive before their handle is registered.

async function acceptingRecorder(t: ExecutionContext): Promise<Recorder> {
  const service = await startRecorder(always(200, 'null'));
  t.teardown(() => service.close());
  return service;
}

function disabledHandle(origin: string, more: object = {}) {
  const signal = { endpoint: `${origin}/v1/p/signal`, token: 'tOken' };
  return { alias: 'ready', minions: ['m1', 'm2'], signal, ...more };
}

/** Returns the ids and data that a service received, in order. */
function sentSignals({ requests }: Recorder): unknown[] {
  return requests.map(({ body }) => JSON.parse(body)).map(({ id, data }) => [id, data]);
}

test('a signal for an alias without a handle is delivered once the handle is registered', async (t) => {
  const service = await acceptingRecorder(t);
  const { handles, signal, told, fired, outbox } = await openTestSignals(t, [service.origin]);
  for (const data of [1, 2]) await signal('m1', 'heat/ready', { data });
  await signal('m3', 'heat/ready', { data: 3 });
  t.deepEqual(
    fired.map(({ tag, data }) => [tag, data.id, data.handle]),
    [
      ['signal/held', 'm1', 'ready'],
      ['signal/held', 'm1', 'ready'],
      ['signal/held', 'm3', 'ready'],
    ],
  );
  t.deepEqual(
    (await outbox.list()).map(({ minion, state }) => [minion, state]),
    [
      ['m1', 'held'],
      ['m1', 'held'],
      ['m3', 'held'],
    ],
  );
  await handles.add(disabledHandle(service.origin));
  await signal('m1', 'heat/ready', { data: 4 });
  await told('signal/delivered', 3);
  t.deepEqual(sentSignals(service), [
    ['m1', 1],
    ['m1', 2],
    ['m1', 4],
  ]);
  await handles.add(disabledHandle(service.origin, { minions: ['m1', 'm2', 'm3'] }), {
    replaces: true,
  });
  await told('signal/delivered', 4);
  t.deepEqual(sentSignals(service).at(-1), ['m3', 3]);
});

test('a signal that is written while its handle is registered is delivered', async (t) => {
  const service = await acceptingRecorder(t);
  const { handles, signal, told } = await openTestSignals(t, [service.origin]);
  const both = [
    signal('m1', 'heat/ready', { data: 1 }),
    handles.add(disabledHandle(service.origin)),
  ];
  await Promise.all(both);
  await told('signal/delivered');
  t.deepEqual(sentSignals(service), [['m1', 1]]);
});

test('a held signal survives a crash, and a repeated request adds none', async (t) => {
  const service = await acceptingRecorder(t);
  const state = memoryState();
  const first = await openTestSignals(t, [service.origin], { state });
  await first.signal('m1', 'heat/ready', { data: 1 }, 'nonce');
  await first.signal('m2', 'heat/ready', { data: 2 });
  await first.close();
  const second = await openTestSignals(t, [service.origin], { state });
  await second.signal('m1', 'heat/ready', { data: 1 }, 'nonce');
  t.is((await second.outbox.list()).length, 2);
  await second.handles.add(disabledHandle(service.origin, { minions: ['m1'] }));
  await second.told('signal/delivered');
  await second.close();
  // The process ended after the handle was registered, and before the stored signals were assigned
  // to it.
  const third = await openTestSignals(t, [service.origin], { state, isStarted: false });
  await third.handles.add(disabledHandle(service.origin, { alias: 'other' }));
  await third.handles.add(disabledHandle(service.origin), { replaces: true });
  await third.close();
  const fourth = await openTestSignals(t, [service.origin], { state });
  await fourth.told('signal/delivered');
  t.deepEqual(sentSignals(service), [
    ['m1', 1],
    ['m2', 2],
  ]);
});

test('a held signal without a handle is put into the dead-letter list, with an event and an audit line', async (t) => {
  const service = await acceptingRecorder(t);
  const { handles, signal, told, outbox, audited } = await openTestSignals(t, [service.origin], {
    section: { held_ttl: 0.02 },
  });
  await signal('m1', 'heat/ready', { data: 1 });
  const [failed] = await told('signal/failed');
  const reason = 'no handle was registered for the signal within 0.02 s';
  t.like(failed?.data, { id: 'm1', handle: 'ready', reason });
  const [entry] = await outbox.list({ isDead: true });
  t.like(entry, { alias: 'ready', minion: 'm1', state: 'dead', reason });
  t.deepEqual(audited, [
    {
      who: { kind: 'minion', name: 'm1' },
      action: 'signal',
      what: 'heat/ready',
      outcome: 'expired',
      detail: reason,
    },
  ]);
  await handles.add(disabledHandle(service.origin));
  await outbox.retry({});
  await told('signal/delivered');
  t.deepEqual(sentSignals(service), [['m1', 1]]);
});

test('held signals of a minion are limited by held_per_minion, for each minion separately', async (t) => {
  const section = { held_per_minion: 2, held_ttl: 600 };
  const { signal, fired, outbox } = await openTestSignals(t, [], { section });
  await Promise.all([1, 2, 3, 4].map((data) => signal('m1', `heat/a${data}`, { data })));
  await signal('m2', 'heat/a1');
  const refused = fired.filter(({ tag }) => tag === 'signal/refused');
  t.deepEqual(
    refused.map(({ data }) => [data.id, data.reason]),
    Array(2).fill(['m1', 'too many signals of this minion are held for unregistered handles']),
  );
  t.is((await outbox.list()).length, 3);
});

test('signals without a handle leave most bytes of the outbox to those with one', async (t) => {
  const section = { bytes: 16_000 };
  const { handles, signal, told } = await openTestSignals(t, [], { section, isStarted: false });
  const data = 'x'.repeat(1_500);
  await signal('m1', 'heat/other', { data });
  await signal('m2', 'heat/other', { data });
  await signal('m3', 'heat/other', { data });
  const [refused] = await told('signal/refused');
  t.like(refused?.data, { id: 'm3', reason: 'the outbox is full' });
  await handles.add(disabledHandle('http://127.0.0.1:1'));
  await signal('m2', 'heat/ready', { data });
  await told('signal/accepted');
});

test('signals of a machine do not count for the next machine with its id', async (t) => {
  const service = await acceptingRecorder(t);
  let key = 'aa:bb';
  const { handles, signal, told, fired, dismiss } = await openTestSignals(t, [service.origin], {
    keyOf: () => key,
  });
  await signal('m1', 'heat/ready');
  await signal('m2', 'heat/ready');
  await dismiss('m2');
  key = 'cc:dd';
  await handles.add(disabledHandle(service.origin));
  const failed = fired.filter(({ tag }) => tag === 'signal/failed');
  t.deepEqual(
    failed.map(({ data }) => [data.id, data.reason]),
    [
      ['m2', 'the minion was retired before a handle was registered for the signal'],
      ['m1', 'the key of the minion has changed since it sent the signal'],
    ],
  );
  await signal('m1', 'heat/ready', { data: 'new' });
  await told('signal/delivered');
  t.deepEqual(sentSignals(service), [['m1', 'new']]);
});

test('a held signal for a member that the handle does not declare is given up with the reason', async (t) => {
  const { handles, signal, told } = await openTestSignals(t, []);
  await signal('m1', 'heat/ready/db');
  await handles.add(disabledHandle('http://127.0.0.1:1'));
  const [failed] = await told('signal/failed');
  t.is(failed?.data.reason, 'the handle does not list this group member');
});

test('without holding, a signal without a handle is refused', async (t) => {
  const section = { held_ttl: 0 };
  const { signal, told, outbox } = await openTestSignals(t, [], { section });
  await signal('m1', 'heat/ready');
  const [refused] = await told('signal/refused');
  t.is(refused?.data.reason, 'no handle with this alias is registered for this minion');
  t.deepEqual(await outbox.list(), []);
});

test('a signal with a tag that cannot name a handle is not held', async (t) => {
  const { signal, fired, outbox } = await openTestSignals(t, []);
  for (const tag of ['heat/', 'heat/a b', `heat/${'a'.repeat(65)}`, 'heat/a/b/c', 'other/a']) {
    await signal('m1', tag);
  }
  t.deepEqual(fired, []);
  t.deepEqual(await outbox.list(), []);
});

// Handles of several owners. Each owner has its own aliases and its own quota.

const closed = 'http://127.0.0.1:1';

function ownedHandle(owner: string, minion: string, more: object = {}) {
  const signal = { endpoint: `${closed}/${owner}`, token: 'tOken' };
  return { alias: 'ready', owner, minions: [minion], signal, ...more };
}

test('two owners use the same alias for different minions, and each signal goes to its own', async (t) => {
  const service = await startRecorder(always(200, 'null'));
  t.teardown(() => service.close());
  const { handles, signal, told } = await openTestSignals(t, [service.origin]);
  for (const [owner, minion] of [
    ['a', 'm1'],
    ['b', 'm2'],
  ] as const) {
    const endpoint = `${service.origin}/${owner}`;
    await handles.add(ownedHandle(owner, minion, { signal: { endpoint, token: 'tOken' } }));
  }
  for (const minion of ['m2', 'm1']) {
    await signal(minion, 'heat/ready');
    await told('signal/delivered', service.requests.length + 1);
  }
  t.deepEqual(
    service.requests.map(({ path, body }) => [path, JSON.parse(body).id]),
    [
      ['/b', 'm2'],
      ['/a', 'm1'],
    ],
  );
});

test('an owner cannot take or replace an alias of a minion that another owner has', async (t) => {
  const { handles } = await openTestSignals(t, []);
  await handles.add(ownedHandle('a', 'm1'));
  for (const replaces of [false, true]) {
    const again = handles.add(ownedHandle('b', 'm1', { minions: ['m2', 'm1'] }), { replaces });
    await t.throwsAsync(again, { code: 'ERR_HANDLE_EXISTS' });
  }
  t.is((await handles.show('ready')).owner, 'a');
});

test('an expired handle does not reserve its alias', async (t) => {
  let now = Date.now();
  const { handles, signal, told } = await openTestSignals(t, [], { now: () => now });
  await handles.add(ownedHandle('a', 'm1', { expiresAt: now + 1_000 }));
  now += 1_000;
  await handles.add(ownedHandle('b', 'm1'));
  await handles.remove('ready', { owner: 'a' });
  await signal('m1', 'heat/ready');
  t.like((await told('signal/accepted'))[0]?.data, { id: 'm1', handle: 'ready' });
});

test('a handle for groups accepts only signals of members of these groups', async (t) => {
  const service = await startRecorder(always(200, 'null'));
  t.teardown(() => service.close());
  const { handles, signal, told, outbox } = await openTestSignals(t, [service.origin], {
    nodegroups: { db: ['db1'] },
    projects: { mine: 'p1', theirs: 'p2' },
  });
  const { minions: _minions, ...rest } = handle(service.origin);
  const groups = { globs: ['web*'], nodegroups: ['db'], projects: ['p1'] };
  t.like(await handles.add({ ...rest, ...groups }), { ...groups, minions: [] });
  for (const minion of ['other', 'web1', 'theirs', 'db1', 'mine']) {
    await signal(minion, 'heat/ready');
  }
  await told('signal/delivered', 3);
  t.deepEqual(
    sent(service).map(({ id }) => id),
    ['web1', 'db1', 'mine'],
  );
  t.deepEqual(
    (await outbox.list()).map(({ minion, state }) => [minion, state]),
    [
      ['other', 'held'],
      ['theirs', 'held'],
    ],
  );
});

test('the groups of a project contain its own guests only', async (t) => {
  const { handles, signal, told, outbox } = await openTestSignals(t, [], {
    nodegroups: { db: ['theirs-3', 'web4'] },
    projects: { 'web-1': 'p1', 'web-2': 'p2', 'theirs-3': 'p2' },
  });
  const { minions: _minions, ...rest } = ownedHandle('project:p1', 'm1');
  await handles.add({ ...rest, globs: ['web*'], nodegroups: ['db'], projects: ['p1', 'p2'] });
  for (const minion of ['web-2', 'theirs-3', 'web-1', 'web4']) await signal(minion, 'heat/ready');
  await told('signal/held', 3);
  const states = (await outbox.list()).map(({ minion, state }) => `${minion} ${state}`).sort();
  // web4 was not enrolled, so no rule's `within` and no project makes it a guest.
  t.deepEqual(
    states.filter((it) => it.endsWith('held')),
    ['theirs-3 held', 'web-2 held', 'web4 held'],
  );
});

test('a handle that lists the minion precedes those for its groups, and the first group precedes others', async (t) => {
  let now = Date.now();
  const state = memoryState(() => now);
  const options = { state, now: () => now };
  const { handles, signal, outbox, told, close } = await openTestSignals(t, [], options);
  const forGroup = (owner: string, globs: readonly string[], more: object = {}) => {
    const { minions: _minions, ...rest } = ownedHandle(owner, 'm1', more);
    return { ...rest, globs };
  };
  await handles.add(ownedHandle('listed', 'web1'));
  for (const owner of ['first', 'second']) {
    now += 1_000;
    await handles.add(forGroup(owner, ['web*']));
  }
  // A minion that another handle's group contains is not listed. A new key keeps its position.
  const taking = handles.add(ownedHandle('late', 'web2'));
  await t.throwsAsync(taking, { code: 'ERR_HANDLE_EXISTS' });
  await handles.add(forGroup('first', ['web*'], { stack: 's' }), { replaces: true });
  for (const minion of ['web1', 'web2']) await signal(minion, 'heat/ready');
  const ownersOf = async (api: typeof outbox) =>
    (await api.list()).map(({ minion, owner }) => `${minion} ${owner}`).sort();
  await told('signal/failed', 2);
  t.deepEqual(await ownersOf(outbox), ['web1 listed', 'web2 first']);
  await outbox.drop({});
  await close();

  const next = await openTestSignals(t, [], options);
  await next.handles.add(forGroup('first', ['web?', 'app*']), { replaces: true });
  await next.signal('web2', 'heat/ready');
  await next.told('signal/failed');
  t.deepEqual(await ownersOf(next.outbox), ['web2 second'], 'other groups are a new claim');
});

test('held signals for a group are delivered when its handle is registered', async (t) => {
  const service = await startRecorder(always(200, 'null'));
  t.teardown(() => service.close());
  const { handles, signal, told } = await openTestSignals(t, [service.origin]);
  await signal('web1', 'heat/ready');
  await signal('app1', 'heat/ready');
  const { minions: _minions, ...rest } = handle(service.origin);
  await handles.add({ ...rest, globs: ['web*'] });
  t.is((await told('signal/delivered'))[0]?.data.id, 'web1');
});

test('a removal must name the owner if several have the alias', async (t) => {
  const { handles } = await openTestSignals(t, []);
  await handles.add(ownedHandle('a', 'm1'));
  await handles.add(ownedHandle('b', 'm2'));
  for (const work of [handles.show('ready'), handles.remove('ready')]) {
    await t.throwsAsync(work, { code: 'ERR_HANDLE_AMBIGUOUS', message: /a, b$/ });
  }
  await handles.remove('ready', { owner: 'b' });
  t.is((await handles.show('ready')).owner, 'a');
  await t.throwsAsync(handles.show('ready', { owner: 'b' }), { code: 'ERR_HANDLE_UNKNOWN' });
});

test('signals of an earlier owner of an alias are not sent to the next one', async (t) => {
  const { handles, signal, told, outbox } = await openTestSignals(t, []);
  await handles.add(ownedHandle('a', 'm1'));
  await signal('m1', 'heat/ready', { reason: 'of a' });
  await told('signal/failed');
  await handles.remove('ready', { owner: 'a' });
  await handles.add(ownedHandle('b', 'm1'));
  t.deepEqual(await outbox.list({ alias: 'ready', owner: 'b' }), []);
  t.deepEqual(await outbox.drop({ alias: 'ready', owner: 'b' }), []);
  t.is((await outbox.list({ alias: 'ready', owner: 'a' })).length, 1);
});

test('handles of one owner leave space for those of others', async (t) => {
  const section = { handle_bytes_per_owner: 800, handle_bytes: 4_000 };
  const state = memoryState();
  const { handles } = await openTestSignals(t, [], { section, state });
  const add = (owner: string, alias: string) => handles.add(ownedHandle(owner, 'm1', { alias }));
  await add('a', 'a1');
  await add('a', 'a2');
  await t.throwsAsync(add('a', 'a3'), { code: 'ERR_HANDLE_LIMIT' });
  await add('b', 'b1');
  await handles.remove('a1');
  await add('a', 'a3');
  const members = Array.from({ length: 20 }, (_, index) => `member-${index}-of-many`);
  const larger = ownedHandle('a', 'm1', { alias: 'a3', stack: 's'.repeat(256), members });
  await t.throwsAsync(handles.add(larger, { replaces: true }), { code: 'ERR_HANDLE_LIMIT' });
  t.is((await handles.show('a3')).stack, 'a3');
  const { handles: next } = await openTestSignals(t, [], { section, state });
  await t.throwsAsync(next.add(ownedHandle('a', 'm1', { alias: 'a4' })), {
    code: 'ERR_HANDLE_LIMIT',
  });
});

/**
 * Registers handles of an owner for the minions m1 and m2 until their limit is reached.
 * @returns the number of registered handles
 */
async function fillHandles(
  t: ExecutionContext,
  { handles }: Pick<SignalsUnderTest, 'handles'>,
  owner: string,
): Promise<number> {
  for (let count = 0; count < 100; count += 1) {
    const more = { alias: `${owner}${count}`, minions: ['m1', 'm2'] };
    const error = await handles.add(ownedHandle(owner, 'm1', more)).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    if (error === undefined) continue;
    t.like(error, { code: 'ERR_HANDLE_LIMIT' });
    return count;
  }
  throw new Error(`the handles of ${owner} reach no limit`);
}

test('handles of one owner take at most as much as is free', async (t) => {
  const section = { handle_bytes_per_owner: 8_000, handle_bytes: 8_000 };
  const signals = await openTestSignals(t, [], { section });
  const own = await fillHandles(t, signals, 'a');
  const other = await fillHandles(t, signals, 'b');
  t.true(own >= 4 && other >= own / 3, `${own}, ${other}`);
});

test('a retired minion leaves the handles of an owner whose share has become smaller', async (t) => {
  const section = { handle_bytes_per_owner: 8_000, handle_bytes: 8_000 };
  const signals = await openTestSignals(t, [], { section });
  const own = await fillHandles(t, signals, 'a');
  const other = await fillHandles(t, signals, 'b');
  t.true(own > 2 * (other - 1), `${own}, ${other}`);
  await signals.dismiss('m1');
  const left = await signals.handles.list({ owner: 'a' });
  t.deepEqual(
    left.map(({ minions }) => minions),
    Array.from({ length: own }, () => ['m2']),
  );
  // The handles still count toward the bytes of their owner.
  for (let count = 0; count < other; count += 1) await signals.handles.remove(`b${count}`);
  const larger = ownedHandle('a', 'm1', { alias: 'more', stack: 's'.repeat(256) });
  await t.throwsAsync(signals.handles.add(larger), { code: 'ERR_HANDLE_LIMIT' });
});

test('a refused handle leaves the bytes of its owner unchanged', async (t) => {
  const section = { handle_bytes_per_owner: 8_000, handle_bytes: 8_000 };
  const signals = await openTestSignals(t, [], { section });
  const own = await fillHandles(t, signals, 'a');
  const other = await fillHandles(t, signals, 'b');
  for (let count = 0; count < own; count += 1) {
    const more = { alias: `a${count}`, stack: 's'.repeat(256), minions: ['m1', 'm2'] };
    const larger = signals.handles.add(ownedHandle('a', 'm1', more), { replaces: true });
    await t.throwsAsync(larger, { code: 'ERR_HANDLE_LIMIT' });
  }
  for (let count = 0; count < other; count += 1) await signals.handles.remove(`b${count}`);
  const more = ownedHandle('a', 'm1', { alias: 'more' });
  await t.throwsAsync(signals.handles.add(more), { code: 'ERR_HANDLE_LIMIT' });
});

test('signals for the handles of one owner leave space for those of others', async (t) => {
  const section = { per_owner: 2, per_stack: 3 };
  const { handles, signal, fired } = await openTestSignals(t, [], { section, isStarted: false });
  for (const [owner, minion] of [
    ['a', 'm1'],
    ['b', 'm2'],
  ] as const) {
    for (const alias of ['x', 'y', 'z']) {
      await handles.add(ownedHandle(owner, minion, { alias, stack: 's' }));
    }
  }
  for (const alias of ['x', 'y', 'z']) await signal('m1', `heat/${alias}`);
  for (const alias of ['x', 'y']) await signal('m2', `heat/${alias}`);
  t.deepEqual(
    fired.map(({ tag, data }) => [tag, data.id]),
    [
      ['signal/accepted', 'm1'],
      ['signal/accepted', 'm1'],
      ['signal/refused', 'm1'],
      ['signal/accepted', 'm2'],
      ['signal/accepted', 'm2'],
    ],
  );
});

/** Data that Heat writes to Swift after it has received a signal. */
const taken = '9214b4e4460fcdb9f3a369941400e71e';

/** Opens signals with a handle `ready` for m1 and m2. */
async function open(
  t: ExecutionContext,
  origin: string,
  signal: unknown,
): Promise<SignalsUnderTest> {
  const signals = await openTestSignals(t, [origin]);
  await signals.handles.add({ alias: 'ready', minions: ['m1', 'm2'], signal });
  return signals;
}

function credentials(origin: string) {
  return {
    auth_url: `${origin}/v3/`,
    user_id: 'u1',
    password: 'pa$$word',
    project_id: 'p1',
    region_name: 'RegionOne',
  };
}

function lines({ requests }: Recorder): string[] {
  return requests.map(({ method, path }) => `${method} ${path}`);
}

test('CFN_SIGNAL sends the signal to the address with PUT', async (t) => {
  const service = await recorderFor(t, always(200, '<resource>handle</resource>'));
  const path = '/v1/waitcondition/arn%3Aopenstack/resources/handle?Signature=HM%2F';
  const { signal, told } = await open(t, service.origin, { alarm_url: `${service.origin}${path}` });
  await signal('m1', 'heat/ready', { status: 'FAILURE', reason: 'disk full' });
  await told('signal/delivered');
  t.deepEqual(lines(service), [`PUT ${path}`]);
  t.deepEqual(JSON.parse(service.requests[0]?.body ?? ''), {
    status: 'FAILURE',
    reason: 'disk full',
    id: 'm1',
  });
});

test('heat-api-cfn that responds with 500 is requested four times, and no more', async (t) => {
  const service = await recorderFor(t, always(500));
  const url = `${service.origin}/v1/waitcondition/x?Signature=HM`;
  const { signal, told } = await open(t, service.origin, { alarm_url: url });
  await signal('m1', 'heat/ready');
  await told('signal/failed');
  t.is(service.requests.length, 4);
});

test('an AWS handle gets all four of its fields as text', async (t) => {
  const service = await recorderFor(t, always(200));
  const url = `${service.origin}/v1/waitcondition/x?Signature=HM`;
  const { signal, told } = await open(t, service.origin, url);
  await signal('m1', 'heat/ready');
  await signal('m2', 'heat/ready', { reason: 'up', data: { ip: '::1' } });
  await told('signal/delivered', 2);
  t.deepEqual(
    service.requests.map(({ body }) => JSON.parse(body)),
    [
      { Status: 'SUCCESS', Reason: 'signal received', Data: '', UniqueId: 'm1' },
      { Status: 'SUCCESS', Reason: 'up', Data: '{"ip":"::1"}', UniqueId: 'm2' },
    ],
  );
});

test('HEAT_SIGNAL logs in once, and again if its token is refused', async (t) => {
  let logins = 0;
  let good = '';
  const service = await recorderFor(t, ({ path, headers }, response) => {
    if (path === '/v3/auth/tokens') {
      logins += 1;
      good = `token-${logins}`;
      response.writeHead(201, { 'x-subject-token': good }).end('{}');
    } else response.writeHead(headers['x-auth-token'] === good ? 200 : 401).end('null');
  });
  const form = { ...credentials(service.origin), alarm_url: `${service.origin}/signal` };
  const { signal, told } = await open(t, service.origin, form);
  await signal('m1', 'heat/ready');
  await signal('m2', 'heat/ready');
  await told('signal/delivered', 2);
  good = 'another';
  await signal('m1', 'heat/ready');
  await told('signal/delivered', 3);
  const [login, post] = ['POST /v3/auth/tokens', 'POST /signal'];
  t.deepEqual(lines(service), [login, post, post, post, login, post]);
  t.deepEqual(JSON.parse(service.requests[0]?.body ?? '').auth.identity.password.user, {
    id: 'u1',
    password: 'pa$$word',
  });
});

test('HEAT_SIGNAL with a wrong password uses no token of another handle', async (t) => {
  const service = await recorderFor(t, ({ path, body, headers }, response) => {
    if (path !== '/v3/auth/tokens') {
      response.writeHead(headers['x-auth-token'] === 'token' ? 200 : 401).end('null');
    } else if (JSON.parse(body).auth.identity.password.user.password === 'pa$$word') {
      response.writeHead(201, { 'x-subject-token': 'token' }).end('{}');
    } else response.writeHead(401).end('{}');
  });
  const form = { ...credentials(service.origin), alarm_url: `${service.origin}/signal` };
  const { handles, signal, told, outbox } = await openTestSignals(t, [service.origin]);
  await handles.add({ alias: 'ready', owner: 'a', minions: ['m1'], signal: form });
  const guess = { ...form, password: 'a guess' };
  await handles.add({ alias: 'guess', owner: 'a', minions: ['m2'], signal: guess });
  await signal('m1', 'heat/ready');
  await told('signal/delivered');
  await signal('m2', 'heat/guess');
  await told('signal/failed');
  t.deepEqual(
    (await outbox.list()).map(({ alias, state }) => [alias, state]),
    [['guess', 'dead']],
  );
});

test('log-ins of one owner do not evict the token of another', (t) => {
  const cache = new HandleTokenCache({ total: 10 });
  const [quiet, busy] = [cache.of('quiet'), cache.of('busy')];
  quiet.set('log-in', 'token');
  for (let variant = 0; variant < 20; variant += 1) busy.set(`variant ${variant}`, 'token');
  t.is(quiet.get('log-in'), 'token');
  t.is(busy.get('variant 19'), 'token');
  t.is(busy.get('variant 0'), undefined);
  t.is(busy.get('log-in'), undefined, 'owners do not share tokens');
  quiet.delete('log-in');
  t.is(quiet.get('log-in'), undefined);
});

test('the token of a HEAT_SIGNAL counts for the owner of its handle', async (t) => {
  const service = await recorderFor(t, ({ path }, response) => {
    const isLogin = path === '/v3/auth/tokens';
    response.writeHead(isLogin ? 201 : 200, { 'x-subject-token': 't' }).end('{}');
  });
  const form = { ...credentials(service.origin), alarm_url: `${service.origin}/signal` };
  const { handles, signal, told } = await openTestSignals(t, [service.origin]);
  await handles.add({ alias: 'ready', owner: 'a', minions: ['m1'], signal: form });
  await handles.add({ alias: 'ready', owner: 'b', minions: ['m2'], signal: form });
  await signal('m1', 'heat/ready');
  await told('signal/delivered');
  await signal('m1', 'heat/ready');
  await told('signal/delivered', 2);
  await signal('m2', 'heat/ready');
  await told('signal/delivered', 3);
  const [login, post] = ['POST /v3/auth/tokens', 'POST /signal'];
  t.deepEqual(lines(service), [login, post, post, login, post]);
});

test('a user that is always refused is given up after four requests', async (t) => {
  let isGood = true;
  const service = await recorderFor(t, ({ path }, response) => {
    if (path === '/v3/auth/tokens') response.writeHead(201, { 'x-subject-token': 't' }).end('{}');
    else response.writeHead(isGood ? 200 : 401).end('{"error": {"message": "No."}}');
  });
  const form = { ...credentials(service.origin), alarm_url: `${service.origin}/signal` };
  const { signal, told, outbox } = await open(t, service.origin, form);
  await signal('m1', 'heat/ready');
  await told('signal/delivered');
  isGood = false;
  const before = service.requests.length;
  await signal('m1', 'heat/ready');
  await told('signal/failed');
  t.is(service.requests.length - before, 3);
  t.is((await outbox.list())[0]?.reason, 'answered 401: No.');
});

test('a refused log-in is final, with the text of Keystone', async (t) => {
  const body =
    '{"error":{"code":401,"message":"The request you have made requires authentication.","title":"Unauthorized"}}';
  const service = await recorderFor(t, always(401, body));
  const form = { ...credentials(service.origin), alarm_url: `${service.origin}/signal` };
  const { signal, told, outbox } = await open(t, service.origin, form);
  await signal('m1', 'heat/ready');
  await told('signal/failed');
  t.is(service.requests.length, 1);
  t.is(
    (await outbox.list())[0]?.reason,
    'login answered 401: The request you have made requires authentication.',
  );
});

/** Answers like a Keystone with a catalog and a Zaqar at one address. */
function zaqar(origin: () => string): Answerer {
  return ({ path }, response) => {
    if (path !== '/v3/auth/tokens') return response.writeHead(201).end('{"resources": ["/x"]}');
    const endpoint = (face: string, region: string, url: string) => ({
      interface: face,
      region,
      url,
    });
    const endpoints = [
      endpoint('admin', 'RegionOne', `${origin()}/admin`),
      endpoint('public', 'RegionTwo', `${origin()}/two`),
      endpoint('public', 'RegionOne', origin()),
    ];
    const body = JSON.stringify({ token: { catalog: [{ type: 'messaging', endpoints }] } });
    return response.writeHead(201, { 'x-subject-token': 't' }).end(body);
  };
}

test('ZAQAR_SIGNAL logs in for each signal and posts to the queue of its region', async (t) => {
  const service = await recorderFor(t, (request, response) =>
    zaqar(() => service.origin)(request, response),
  );
  const form = { ...credentials(service.origin), queue_id: 'a/b' };
  const { signal, told } = await open(t, service.origin, form);
  await signal('m1', 'heat/ready', { data: 7 });
  await signal('m2', 'heat/ready');
  await told('signal/delivered', 2);
  const [login, post] = ['POST /v3/auth/tokens', 'POST /v2/queues/a%2Fb/messages'];
  t.deepEqual(lines(service), [login, post, login, post]);
  const [, message] = service.requests;
  t.regex(String(message?.headers['client-id']), /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  const [first] = JSON.parse(message?.body ?? '').messages;
  t.deepEqual(first.body, { status: 'SUCCESS', data: 7, id: 'm1' });
  // The remaining lifetime of the handle, which is 12 hours in total.
  t.true(first.ttl > 43_100 && first.ttl <= 43_200);
});

test('a catalog cannot refer to a host that is not listed', async (t) => {
  const service = await recorderFor(t, (request, response) =>
    zaqar(() => 'http://169.254.169.254')(request, response),
  );
  const form = { ...credentials(service.origin), queue_id: 'q' };
  const { signal, told, outbox } = await open(t, service.origin, form);
  await signal('m1', 'heat/ready');
  await told('signal/failed');
  t.is(
    (await outbox.list())[0]?.reason,
    'http://169.254.169.254 is not listed under handles: endpoints',
  );
  t.is(service.requests.length, 1);
});

test('TEMP_URL_SIGNAL waits until Heat has read the previous signal', async (t) => {
  let etag = taken;
  const service = await recorderFor(t, ({ method, body }, response) => {
    if (method === 'PUT') etag = hash('md5', body);
    response.writeHead(method === 'PUT' ? 201 : 200, { etag: `"${etag}"` }).end();
  });
  const { signal, told, outbox } = await open(t, service.origin, {
    alarm_url: `${service.origin}/v1/AUTH_p/c/o?temp_url_sig=f8&temp_url_expires=2147483586`,
  });
  await signal('m1', 'heat/ready');
  await told('signal/delivered');
  await signal('m2', 'heat/ready');
  await service.heard(3);
  // Several turns of the event loop lie between the response and the record of its reason.
  while ((await outbox.list())[0]?.reason === undefined) await new Promise(setImmediate);
  t.deepEqual(
    service.requests.map(({ method }) => method),
    ['HEAD', 'PUT', 'HEAD'],
  );
  t.is((await outbox.list())[0]?.reason, 'waiting until Heat has read the previous signal');
  etag = taken;
  await told('signal/delivered', 2);
  t.deepEqual(
    service.requests.map(({ method }) => method),
    ['HEAD', 'PUT', 'HEAD', 'HEAD', 'PUT'],
  );
});

test('TEMP_URL_SIGNAL is not sent again if its lost request was stored', async (t) => {
  let etag = taken;
  const service = await recorderFor(t, ({ method, body }, response) => {
    if (method === 'HEAD') response.writeHead(200, { etag }).end();
    else {
      etag = hash('md5', body);
      response.destroy();
    }
  });
  const { signal, told } = await open(t, service.origin, {
    alarm_url: `${service.origin}/v1/AUTH_p/c/o?temp_url_sig=f8&temp_url_expires=2147483586`,
  });
  await signal('m1', 'heat/ready');
  await told('signal/delivered');
  t.deepEqual(
    service.requests.map(({ method }) => method),
    ['HEAD', 'PUT', 'HEAD'],
  );
});

test('a refused TEMP_URL_SIGNAL ends with the text of Swift', async (t) => {
  const service = await recorderFor(t, always(401, '401 Unauthorized: Temp URL invalid\n'));
  const { signal, told, outbox } = await open(t, service.origin, {
    alarm_url: `${service.origin}/v1/AUTH_p/c/o?temp_url_sig=f8&temp_url_expires=2147483586`,
  });
  await signal('m1', 'heat/ready');
  await told('signal/failed');
  t.is((await outbox.list())[0]?.reason, 'answered 401: 401 Unauthorized: Temp URL invalid');
  t.is(service.requests.length, 2);
});

test('a webhook is signed with each of its keys, and has the same id in each attempt', async (t) => {
  const keys = [1, 2].map((fill) => Buffer.alloc(32, fill));
  const service = await recorderFor(t, always(503));
  const { signal, told } = await open(t, service.origin, {
    url: `${service.origin}/hook`,
    keys: keys.map((key) => `whsec_${key.toString('base64')}`),
  });
  await signal('m1', 'heat/ready', { data: 'ß' });
  await service.heard(1);
  service.answer = always(204);
  await told('signal/delivered');
  for (const { headers, body } of service.requests) {
    const text = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
    const signatures = keys.map((key) => createHmac('sha256', key).update(text).digest('base64'));
    t.is(headers['webhook-signature'], signatures.map((it) => `v1,${it}`).join(' '));
  }
  const ids = new Set(service.requests.map(({ headers }) => headers['webhook-id']));
  t.is(ids.size, 1);
  t.deepEqual(JSON.parse(service.requests.at(-1)?.body ?? '').data, {
    handle: 'ready',
    id: 'm1',
    minion: 'm1',
    status: 'SUCCESS',
    data: 'ß',
  });
});

test('integers of 64 bits reach Heat unchanged', async (t) => {
  const data = { most: 2n ** 64n - 1n, least: -(2n ** 63n), list: [9_007_199_254_740_993n] };
  const digits = ['18446744073709551615', '-9223372036854775808', '9007199254740993'];
  const service = await recorderFor(t, always(200, taken));
  const path = '/v1/waitcondition/x?Signature=HM';
  const { signal, told } = await open(t, service.origin, { alarm_url: `${service.origin}${path}` });
  await signal('m1', 'heat/ready', { data });
  await told('signal/delivered');
  const body = service.requests[0]?.body ?? '';
  for (const number of digits) t.regex(body, new RegExp(`[:[]${number}[,}\\]]`));
});

test('data without a field is empty and reports nothing', (t) => {
  for (const said of [undefined, null, {}]) {
    t.deepEqual(parseSignal(said, 1024), { ok: false, complaint: 'empty' });
  }
});

test('status, reason and data are passed on unchanged', (t) => {
  const said = {
    status: 'FAILURE',
    reason: 'disk full',
    data: { free: [0, 1.5, 'ß', null, true] },
  };
  t.deepEqual(parseSignal(said, 1024), { ok: true, signal: said as never });
});

const refused = [
  ['text', 'SUCCESS', 'not-a-map'],
  ['a status that Heat does not know', { status: 'success' }, 'status-unknown'],
  ['an id of the guest', { id: 'another' }, 'field-unknown'],
  ['any other field', { status: 'SUCCESS', Data: 1 }, 'field-unknown'],
  ['a reason that is not text', { reason: ['x'] }, 'reason-no-text'],
  ['bytes', { data: new Uint8Array([255]) }, 'data-no-json'],
  ['bytes within lists', { data: [[new Uint8Array([255])]] }, 'data-no-json'],
  ['a number that JSON has not', { data: Number.NaN }, 'data-no-json'],
  ['too much data', { data: 'x'.repeat(2000) }, 'bytes'],
] as const;

for (const [what, said, complaint] of refused) {
  test(`${what} is refused, because Heat would drop it or count it wrongly`, (t) => {
    t.deepEqual(parseSignal(said as never, 1024), { ok: false, complaint });
  });
}

test('bytes are counted as encoded, not as characters', (t) => {
  const data = 'ß'.repeat(600);
  t.false(parseSignal({ data }, 1024).ok);
  t.true(parseSignal({ data: 'x'.repeat(600) }, 1024).ok);
});

test('a long reason is truncated, and the failure is still reported', (t) => {
  const read = parseSignal({ status: 'FAILURE', reason: '😀'.repeat(5000) }, 100_000);
  t.true(read.ok);
  if (!read.ok) return;
  t.is([...(read.signal.reason ?? '')].length, 2048);
  t.true(read.signal.reason?.endsWith('😀…'));
});

test('only the beginning of a long reason is examined', (t) => {
  const reason = `${'x'.repeat(2_047)}${'y'.repeat(1_000_000)}`;
  const { [Symbol.iterator]: iterate } = String.prototype;
  let examined = 0;
  String.prototype[Symbol.iterator] = function () {
    examined += this.length;
    return iterate.call(this);
  };
  try {
    const read = parseSignal({ status: 'FAILURE', reason }, 100_000);
    t.is(read.ok && read.signal.reason, `${'x'.repeat(2_047)}…`);
  } finally {
    String.prototype[Symbol.iterator] = iterate;
  }
  t.true(examined <= 2 * 2_048, `${examined} characters`);
});

test('data that is too large for a signal is converted only as far as it fits', (t) => {
  let visited = 0;
  const item = {
    get a(): number {
      visited += 1;
      return 1;
    },
  };
  const read = parseSignal({ data: Array.from({ length: 100_000 }, () => [item]) }, 131_072);
  t.deepEqual(read, { ok: false, complaint: 'bytes' });
  t.true(visited <= 20_000, `${visited} values`);
});

test('data that exactly fits a signal is accepted', (t) => {
  fc.assert(
    fc.property(fc.jsonValue(), (data) => {
      const whole = parseSignal({ data } as never, 1_000_000);
      if (!whole.ok) return t.fail();
      const bytes = Buffer.byteLength(writeJson(whole.signal));
      t.true(parseSignal({ data } as never, bytes).ok);
      t.false(parseSignal({ data } as never, bytes - 1).ok);
    }),
  );
});

test('accepted signal data is equal after a JSON round trip', (t) => {
  fc.assert(
    fc.property(fc.jsonValue(), (data) => {
      const read = parseSignal({ data } as never, 1_000_000);
      if (!read.ok) return t.fail();
      return t.deepEqual(
        JSON.parse(JSON.stringify(read.signal)).data ?? null,
        JSON.parse(JSON.stringify(data)),
      );
    }),
  );
});

test('different pairs of minion and member have different ids', (t) => {
  const id = fc.string({ minLength: 1 }).filter((it) => !it.includes('/'));
  const member = fc.option(fc.stringMatching(/^[A-Za-z0-9._-]+$/), { nil: undefined });
  fc.assert(
    fc.property(id, member, id, member, (a, m, b, n) => {
      t.is(signalId(a, m) === signalId(b, n), a === b && m === n);
    }),
  );
});

test('a tag names an alias, or an alias and a member', (t) => {
  t.deepEqual(parseSignalTag('heat/db-ready'), { alias: 'db-ready', member: undefined });
  t.deepEqual(parseSignalTag('heat/db-ready/m1'), { alias: 'db-ready', member: 'm1' });
  for (const tag of ['heat', 'heat/', 'heat/a/', 'heat//b', 'heat/a/b/c', 'x/heat/a', 'heats/a']) {
    t.is(parseSignalTag(tag), undefined, tag);
  }
});

test('integers of 64 bits are preserved, also in the outbox', (t) => {
  const data = { most: 2n ** 64n - 1n, least: -(2n ** 63n), small: 5 };
  const read = parseSignal({ data }, 1000);
  t.deepEqual(read, { ok: true, signal: { status: 'SUCCESS', data } });
  if (!read.ok) return;
  const { signal } = read;
  const record = { id: 'a', alias: 'b', sequence: 1, minion: 'm1', signal, acceptedAt: 1 };
  t.deepEqual(decodeRecord({ key: ['a'], value: encodeRecord(record) }), record);
});

function openOutbox(
  state: ReturnType<typeof memoryState>,
  now: () => number = () => 1,
): Promise<Outbox> {
  const quotas = {
    ...{ perMinion: 9, perStack: 9, perOwner: 9, ownerBytes: 9_999, heldPerMinion: 9 },
    ...{ entries: 9, bytes: 99_999 },
  };
  return Outbox.open({ state, quotas, keepMarksMs: 9, deadLetterTtlMs: 9, now });
}

test('the age of the outbox is that of the oldest signal, even in the next process', async (t) => {
  const state = memoryState();
  let time = 1;
  const open = (): Promise<Outbox> => openOutbox(state, () => time);
  const first = await open();
  const fields = { minion: 'm1', signal: { status: 'SUCCESS' } } as const;
  await first.accept({ ...fields, alias: 'z', handle: 'h', stack: 's' }, undefined);
  time = 2;
  await first.accept({ ...fields, alias: 'a' }, undefined);
  t.deepEqual(first.figures(), { waiting: 1, held: 1, since: 1 });
  t.deepEqual((await open()).figures(), { waiting: 1, held: 1, since: 1 });
});

test('a start reads only the routing data of each signal, not the data of its guest', async (t) => {
  const state = memoryState();
  const record = { id: 'a', alias: 'b', sequence: 7, minion: 'm1', acceptedAt: 1 } as const;
  const broken = Buffer.from(
    encodeRecord({ ...record, signal: { status: 'SUCCESS', data: 'said' } }),
  );
  broken.write('"said" ', broken.indexOf('"said"}'));
  const key = ['signals', 'outbox', 'b', '7'];
  await state.write([{ op: 'put', key, value: broken }]);
  const outbox = await openOutbox(state);
  t.like(outbox.pending, [{ ...record, bytes: broken.length }]);
  await state.write([{ op: 'put', key, value: Buffer.from('{}\n{}') }]);
  await t.throwsAsync(openOutbox(state), { code: 'ERR_STORE_CORRUPT' });
});

test('signals of an earlier version, one line of JSON each, are upgraded once', async (t) => {
  const state = memoryState(() => 1);
  const old = {
    ...{ id: 'a', alias: 'b', handle: 'h', sequence: 1_700_000_000_000_000, minion: 'm1' },
    ...{ stack: 's', signal: { status: 'FAILURE', data: 2n ** 64n - 1n }, acceptedAt: 1 },
  } as const;
  const waiting = ['signals', 'outbox', 'b', '1'];
  const over = { ...old, id: 'c', owner: 'mine', reason: 'expired', endedAt: 5 };
  await state.write([
    { op: 'put', key: waiting, value: Buffer.from(writeJson(old)) },
    {
      ...{ op: 'put', key: ['signals', 'dead', 'c'], expiresAt: 99 },
      value: Buffer.from(writeJson(over)),
    },
  ]);
  for (const owner of ['first', 'second']) await upgradeRecords(state, () => owner);
  const outbox = await openOutbox(state);
  t.like(outbox.pending, [{ id: 'a', owner: 'first' }]);
  const entry = await state.get(waiting);
  t.deepEqual(entry && decodeRecord(entry), { ...old, owner: 'first' });
  const { dead } = await outbox.dead.get('c');
  t.deepEqual(dead, over);
  t.is((await state.get(['signals', 'dead', 'c']))?.expiresAt, 99);
});

test('finished signals are counted at the start by their age, and not read', async (t) => {
  const rows = [
    { id: 'a', expiresAt: 20 },
    { id: 'b', expiresAt: 10 },
  ];
  const state = {
    ...memoryState(),
    list: async function* (prefix: readonly string[]) {
      for (const { id, expiresAt } of rows) {
        yield {
          key: [...prefix, id],
          get value(): Uint8Array {
            throw new Error('it is read');
          },
          revision: 1,
          expiresAt,
        };
      }
    },
  };
  const dead = await DeadLetterList.open({ state, keepMs: 5, now: () => 15 });
  t.is(dead.size, 1);
  await t.notThrowsAsync(DeliveredList.open(state, () => 15));
});

test('a delivered signal in an unknown format is reported, and not skipped', async (t) => {
  const state = memoryState();
  const delivered = await DeliveredList.open(state, () => 15);
  const entry = { id: 'a', alias: 'x', minion: 'm', status: 'SUCCESS', state: 'delivered' };
  const whole = { ...entry, acceptedAt: 1, failures: 0, endedAt: 2 };
  const put = (id: string, text: string): Promise<unknown> =>
    state.write([{ op: 'put', key: ['signals', 'delivered', id], value: Buffer.from(text) }]);
  await put('a', JSON.stringify(whole));
  t.is((await delivered.list()).length, 1);
  for (const text of [JSON.stringify(entry), '{']) {
    await put('b', text);
    await t.throwsAsync(delivered.list(), {
      code: 'ERR_STORE_CORRUPT',
      message: 'the delivered signal in row signals/delivered/b is damaged',
    });
  }
});

// Messages of services must be parsed in linear time.

const length = 65_536;

function readsQuickly(t: ExecutionContext, body: string): void {
  // Processor time is measured, because it does not depend on other processes.
  const before = process.threadCpuUsage();
  const reason = errorTextOf({ kind: 'answer', status: 500, headers: {}, body });
  const { reason: words } = redactSecrets({ reason }, ['secret']);
  const { user, system } = process.threadCpuUsage(before);
  t.true(words.startsWith('answered 500'));
  t.true(words.length < 400);
  // A parser with quadratic time would need more than a second.
  t.true(user + system < 700_000, `${user + system} µs`);
}

test('a response with endless tags is parsed quickly', (t) => {
  readsQuickly(t, '<'.repeat(length));
});

const answers: readonly (readonly [string, string])[] = [
  ['codes that never end', '<Code>'.repeat(length / 6)],
  ['messages that never end', '<Message>a'.repeat(length / 10)],
  ['blanks', ' '.repeat(length)],
  ['JSON that is none', `{${'"'.repeat(length)}`],
  ['marks that cannot be seen', '\u200b'.repeat(length)],
];

for (const [what, body] of answers) {
  test(`a response of ${what} is parsed as quickly`, (t) => readsQuickly(t, body));
}

test('discarded signals of a minion are dead letters, also those that wait for delivery', async (t) => {
  const service = await recorderFor(t, accepted);
  const options = { isStarted: false };
  const { handles, outbox, signal, discard } = await openTestSignals(t, [service.origin], options);
  await handles.add(handle(service.origin));
  for (const minion of ['m1', 'm2']) {
    await signal(minion, 'heat/ready');
    await signal(minion, 'heat/unregistered');
  }
  await discard(new Set(['m1', 'm3']), 'the site was revoked');
  const left = await outbox.list();
  t.deepEqual(left.map(({ minion, alias, state }) => [minion, alias, state]).sort(), [
    ['m1', 'ready', 'dead'],
    ['m1', 'unregistered', 'dead'],
    ['m2', 'ready', 'waiting'],
    ['m2', 'unregistered', 'held'],
  ]);
  t.true(left.every(({ state, reason }) => state !== 'dead' || reason === 'the site was revoked'));
});
