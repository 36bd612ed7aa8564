/** Tests of events whose data a minion could not parse, and of events without data. */
import test from 'ava';
import { EventBus } from '#master/events/event-bus.ts';
import { openTestSignals, type TestOptions } from './open-signals.ts';
import { always, recorderFor } from './recorder.ts';

async function setting(t: Parameters<typeof openTestSignals>[0], options: TestOptions = {}) {
  const service = await recorderFor(t, always(200, 'null'));
  const signals = await openTestSignals(t, [service.origin], options);
  const register = (more: object = {}) =>
    signals.handles.add({
      alias: 'ready',
      minions: ['m1'],
      signal: { endpoint: `${service.origin}/v1/signal`, token: 'tOken' },
      ...more,
    });
  const bodies = async (count = 1): Promise<Record<string, unknown>[]> =>
    (await service.heard(count)).map(({ body }) => JSON.parse(body));
  return { ...signals, register, bodies };
}

const emptyReason =
  'the event heat/ready is not a valid signal: the event has no data, or data that Salt cannot read; ' +
  'send {"status": "SUCCESS"}, or register the handle with --empty-is-success';

test('an event without data is a FAILURE with the reason, in Heat and for listeners', async (t) => {
  const { register, signal, bodies, told } = await setting(t);
  await register();
  await signal('m1', 'heat/ready', null);
  t.deepEqual(await bodies(), [{ status: 'FAILURE', reason: emptyReason, id: 'm1' }]);
  t.is((await told('signal/refused'))[0]?.data.handle, 'ready');
});

test('an event without data is a SUCCESS if the handle accepts that', async (t) => {
  const { register, signal, bodies, fired } = await setting(t);
  t.true((await register({ emptyIsSuccess: true })).emptyIsSuccess);
  await signal('m1', 'heat/ready', {});
  t.deepEqual(await bodies(), [{ status: 'SUCCESS', id: 'm1' }]);
  t.false(fired.some(({ tag }) => tag === 'signal/refused'));
});

for (const emptyIsSuccess of [false, true]) {
  test(`a handle that is registered later decides about an event without data: ${emptyIsSuccess}`, async (t) => {
    const { register, signal, bodies } = await setting(t);
    await signal('m1', 'heat/ready', {});
    await register({ emptyIsSuccess });
    const [body] = await bodies();
    t.is(body?.status, emptyIsSuccess ? 'SUCCESS' : 'FAILURE');
  });
}

for (const [what, data] of [
  ['text', 'FAILURE'],
  ['a status in small letters', { status: 'failure', reason: 'disk full' }],
  ['an unknown field', { Status: 'FAILURE', Reason: 'disk full' }],
  ['bytes in its data', { data: new Uint8Array([1]) }],
  ['a reason that is not text', { status: 'FAILURE', reason: ['disk full'] }],
] as const) {
  test(`an event with ${what} fails the handle, also one that accepts events without data`, async (t) => {
    const { register, signal, bodies } = await setting(t);
    await register({ emptyIsSuccess: true });
    await signal('m1', 'heat/ready', data as never);
    t.like((await bodies())[0], { status: 'FAILURE', id: 'm1' });
  });
}

for (const [what, arg, expected] of [
  ['JSON without its last brace', '{"status": "FAILURE", "reason": "disk full"', 'neither YAML'],
  ['JSON with a raw tab', '{"status": "FAILURE", "reason": "a\tb"}', 'neither YAML nor JSON'],
  [
    'JSON with a surrogate pair',
    '{"status":"FAILURE","reason":"boom \\ud83d\\ude00"}',
    'boom \ufffd',
  ],
  ['a named argument', 'data={"status":"FAILURE","reason":"boom"}', 'boom'],
  ['a list', '[1]', 'the data of the event is not a map'],
  ['text', 'disk full', 'neither YAML nor JSON'],
] as const) {
  const args = ['heat/ready', arg];

  test(`${what} in a job of event.send fails the handle`, async (t) => {
    const { register, send, bodies } = await setting(t);
    await register({ emptyIsSuccess: true });
    await send('m1', 'heat/ready', { __pub_arg: args });
    const [body] = await bodies();
    t.is(body?.status, 'FAILURE');
    t.true(String(body?.reason).includes(expected), String(body?.reason));
  });

  test(`${what} in a call of salt-call fails the handle`, async (t) => {
    const bus = new EventBus({ maxEventBytes: 0 });
    const { register, send, bodies } = await setting(t, { events: bus });
    await register({ emptyIsSuccess: true });
    await send('m1', 'heat/ready', { __pub_tgt: 'salt-call' });
    const others = { fun: 'event.send', fun_args: ['heat/other', '{"status": "SUCCESS"}'] };
    bus.fire('salt/job/1/ret/m1', others);
    bus.fire('salt/job/1/ret/m2', { ...others, fun_args: ['heat/ready', '{"data": 1}'] });
    bus.fire('salt/job/1/ret/m1', { fun: 'event.send', fun_args: args });
    const [body] = await bodies();
    t.is(body?.status, 'FAILURE');
    t.true(String(body?.reason).includes(expected), String(body?.reason));
  });
}

test('data that follows its event before the handle is registered is delivered to it', async (t) => {
  const bus = new EventBus({ maxEventBytes: 0 });
  const { register, send, bodies } = await setting(t, { events: bus });
  await send('m1', 'heat/ready', { __pub_tgt: 'salt-call' });
  const text = '{"status": "FAILURE", "reason": "\\ud83d\\ude00"}';
  bus.fire('salt/job/1/ret/m1', { fun: 'event.send', fun_args: ['heat/ready', text] });
  await new Promise((resolve) => setTimeout(resolve, 50));
  await register({ emptyIsSuccess: true });
  t.deepEqual(await bodies(), [{ status: 'FAILURE', reason: '\ufffd', id: 'm1' }]);
});

test('salt-call without data leaves the decision to the handle', async (t) => {
  const bus = new EventBus({ maxEventBytes: 0 });
  const { register, send, bodies } = await setting(t, { events: bus });
  for (const emptyIsSuccess of [true, false]) {
    const alias = emptyIsSuccess ? 'a' : 'b';
    await register({ alias, emptyIsSuccess });
    await send('m1', `heat/${alias}`, { __pub_tgt: 'salt-call' });
    bus.fire('salt/job/1/ret/m1', { fun: 'event.send', fun_args: [`heat/${alias}`] });
    await bodies(emptyIsSuccess ? 1 : 2);
  }
  t.deepEqual(
    (await bodies(2)).map(({ status }) => status),
    ['SUCCESS', 'FAILURE'],
  );
});

test('the next signal does not overtake one that waits for its data', async (t) => {
  const bus = new EventBus({ maxEventBytes: 0 });
  const { register, send, signal, bodies } = await setting(t, { events: bus });
  await register();
  await send('m1', 'heat/ready', { __pub_tgt: 'salt-call' });
  await signal('m1', 'heat/ready', { data: 2 });
  t.deepEqual(
    (await bodies(2)).map(({ status }) => status),
    ['FAILURE', 'SUCCESS'],
  );
});
