import test, { type ExecutionContext } from 'ava';
import { BridgeError } from '../../../heat-bridge/errors.ts';
import { memoryState, openTestSignals } from './open-signals.ts';
import { type Answerer, always, type Recorder, startRecorder } from './recorder.ts';

const accepted = always(200, 'null');

async function recorder(t: ExecutionContext, answer: Answerer = accepted): Promise<Recorder> {
  const service = await startRecorder(answer);
  t.teardown(() => service.close());
  return service;
}

function handle(origin: string, alias = 'ready', more: object = {}) {
  const signal = {
    endpoint: `${origin}/v1/p/stacks/s/1/resources/${alias}/signal`,
    token: 'tOken',
  };
  return { alias, minions: ['m1', 'm2'], signal, ...more };
}

/** The ids and data that a service was sent, in their order. */
function sent({ requests }: Recorder): { id: string; data: unknown }[] {
  return requests.map(({ body }) => JSON.parse(body)).map(({ id, data }) => ({ id, data }));
}

test('a signal reaches its handle under the id of the minion', async (t) => {
  const service = await recorder(t);
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
  const service = await recorder(t);
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

test('a second signal under an id waits while Heat may not have stored the first, and others do not', async (t) => {
  const service = await recorder(t);
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

test('a second signal under an id is sent when the wait is over', async (t) => {
  const times: number[] = [];
  const service = await recorder(t, (request, response) => {
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

test('what waits for its id goes with the handle when that is removed', async (t) => {
  const service = await recorder(t);
  const section = { same_id_wait: 0.2 };
  const { handles, signal, told } = await openTestSignals(t, [service.origin], { section });
  await handles.add(handle(service.origin));
  for (const data of [1, 2]) await signal('m1', 'heat/ready', { data });
  await told('signal/delivered');
  await handles.remove('ready');
  const [failed] = await told('signal/failed');
  t.is(failed?.data['reason'], 'the handle was removed');
});

test('members of one minion count each for itself, and only declared ones', async (t) => {
  const service = await recorder(t);
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

test('a minion that the handle does not name is not sent anything of', async (t) => {
  const service = await recorder(t);
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

test('what was accepted is delivered by the next process', async (t) => {
  const service = await recorder(t);
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

test('the same request again adds nothing, also in the next process', async (t) => {
  const service = await recorder(t);
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

test('a handle has one signal in flight, and they arrive in order', async (t) => {
  let inFlight = 0;
  let most = 0;
  const service = await recorder(t, (_request, response) => {
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
  test(`a service that ${what} is asked again under the same id, and the next one waits`, async (t) => {
    const service = await recorder(t, answer);
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
  ['what would steer a terminal', 400, 'a\u001b[2Jb\u202e', 'answered 400: a [2Jb'],
];

for (const [what, status, body, reason] of lastWords) {
  test(`a refusal with ${what} ends after one request, with the words of the service`, async (t) => {
    const service = await recorder(t, always(status, body));
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

test('a signal that is given up lets the next one pass', async (t) => {
  const service = await recorder(t, ({ body }, response) => {
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

test('a signal for an endpoint that is not listed ends in the dead-letter list unsent', async (t) => {
  const service = await recorder(t);
  const { handles, signal, told, outbox } = await openTestSignals(t, []);
  const { isListed } = await handles.add(handle(service.origin));
  t.false(isListed);
  await signal('m1', 'heat/ready');
  await told('signal/failed');
  const [entry] = await outbox.list();
  t.is(entry?.reason, `${service.origin} is not listed under handles: endpoints`);
  t.is(service.requests.length, 0);
});

test('a service that never answers delays no other', async (t) => {
  const [slow, quick] = [await recorder(t, () => {}), await recorder(t)];
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

test('quotas of minion and stack leave room for the others', async (t) => {
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
    ['too many signals of this minion wait', 'too many signals for this stack wait'],
  );
  t.is((await outbox.list()).length, 4);
});

test('room is given back when a signal is over', async (t) => {
  const service = await recorder(t);
  const section = { per_minion: 1 };
  const { handles, signal, told } = await openTestSignals(t, [service.origin], { section });
  await handles.add(handle(service.origin));
  for (let count = 1; count <= 3; count += 1) {
    await signal('m1', 'heat/ready');
    await told('signal/delivered', count);
  }
  t.is(service.requests.length, 3);
});

test('a handle that has expired ends its signals, with the last reason', async (t) => {
  const service = await recorder(t, always(503, 'down for a while'));
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
  t.is(entry?.reason, 'the handle has expired; last: answered 503: down for a while');
  await signal('m1', 'heat/ready');
  const [refused] = await told('signal/refused');
  t.is(refused?.data.reason, 'the handle has expired');
});

test('a handle whose secrets do not open keeps its signals until it expires', async (t) => {
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
  const [old, young] = [await recorder(t, always(503)), await recorder(t)];
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

test('a handle that is replaced keeps its signals, which go where it leads now', async (t) => {
  const [old, young] = [await recorder(t, always(503)), await recorder(t)];
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

test('a signal that was given up can be tried again, behind the others', async (t) => {
  const service = await recorder(t, always(403));
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

test('signals can be dropped, waiting or given up', async (t) => {
  const service = await recorder(t, always(503));
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

test('the token is in no answer, event, reason or row of the store', async (t) => {
  const state = memoryState();
  const service = await recorder(t, always(403, 'bad token tOken, sorry'));
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

test('handles survive the process, and an unknown one is told apart', async (t) => {
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
