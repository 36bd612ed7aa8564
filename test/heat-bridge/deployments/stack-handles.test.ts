/**
 * Handles that a stack registers for its minions, and the report about a signal that is rejected.
 */
import test, { type ExecutionContext } from 'ava';
import {
  createHandleSignaller,
  handlesOf,
  registerHandles,
} from '#guests/deployments/stack-handles.ts';
import type { RegisteredStack } from '#guests/deployments/stacks.ts';
import type { HandleInfo } from '#heat-bridge';
import type { AcceptResult } from '#heat-bridge/signals/outbox.ts';
import { SignalIntake } from '#heat-bridge/signals/signal-intake.ts';
import { createSilentLogger } from '#master';
import { openTestSignals, type SignalsUnderTest } from '../signals/open-signals.ts';
import { always, recorderFor } from '../signals/recorder.ts';

const handle: HandleInfo = {
  ...{ alias: 'ready', id: 'h', transport: 'TOKEN_SIGNAL', origin: 'http://heat', isListed: true },
  ...{ minions: ['web1'], members: [], emptyIsSuccess: false, stack: 'stack demo', owner: 'p' },
  ...{ registeredAt: 0, expiresAt: 100 },
};
const signal = { status: 'SUCCESS', reason: 'r', data: 'd' } as const;

function signaller(
  own: Partial<HandleInfo>,
  acceptance: AcceptResult = { kind: 'accepted', id: '1' },
  more: { readonly maxBytes?: number; readonly now?: () => number } = {},
): ReturnType<typeof createHandleSignaller> {
  const found = { ...handle, ...own };
  const handleFor = (): HandleInfo => found;
  const intake = new SignalIntake({
    ...{ handles: { findFor: handleFor }, outbox: { accept: async () => acceptance } },
    ...{
      held: { has: () => false, release: async () => {}, delay: () => {} },
      admission: { keyOf: () => undefined },
      maxBytes: 1000,
      now: () => 1,
    },
    ...{ holdsUnregistered: false, returnedArguments: undefined },
    reports: { accepted: () => {}, held: () => {}, refused: () => {}, unreadable: () => {} },
    ...more,
  });
  const stack = { owner: 'p', registration: { name: 'demo' } };
  return createHandleSignaller(stack, { handleFor, intake });
}

test('a stack signals the handle of the alias for its minion, if there is one', async (t) => {
  t.deepEqual(await signaller({})('web1', 'ready', signal), { kind: 'delivered' });
  for (const other of [{ owner: 'q' }, { stack: 'stack other' }]) {
    const reason = 'no handle with the alias ready is registered for this stack';
    t.deepEqual(await signaller(other)('web1', 'ready', signal), { kind: 'final', reason });
  }
});

test('a refused signal is not delivered, and tried again when there may be space', async (t) => {
  const full = signaller({}, { kind: 'full', quota: 'perMinion' });
  t.deepEqual(await full('web1', 'ready', signal), {
    kind: 'again',
    reason: 'the handle ready rejected the signal: too many signals of this minion are pending',
  });
  const large = signaller({}, undefined, { maxBytes: 10 });
  t.like(await large('web1', 'ready', signal), { kind: 'final' });
  const late = signaller({}, undefined, { now: () => 100 });
  t.deepEqual(await late('web1', 'ready', signal), {
    kind: 'final',
    reason: 'the handle ready rejected the signal: the handle has expired',
  });
});

interface Place extends SignalsUnderTest {
  readonly stacks: RegisteredStack[];
  readonly stack: (name: string, owner?: string) => RegisteredStack;
  /** Returns the metadata of a server that names handles. */
  readonly name: (
    stack: RegisteredStack,
    minion: string,
    handles: Readonly<Record<string, unknown>>,
  ) => Promise<readonly string[]>;
  readonly attribute: (path: string) => object;
  /** Returns the paths and minions of the signals that were delivered, in order. */
  readonly sent: (count: number) => Promise<readonly string[]>;
}

async function place(t: ExecutionContext): Promise<Place> {
  const service = await recorderFor(t, always(200, 'null'));
  const signals = await openTestSignals(t, [service.origin]);
  const stacks: RegisteredStack[] = [];
  const stack = (name: string, owner?: string): RegisteredStack => {
    const subject = { kind: 'service', name: 'deployments' } as const;
    const registeredAt = stacks.length;
    const one = { id: name, owner, subject, registration: { name }, registeredAt };
    stacks.push(one);
    return one;
  };
  return {
    ...signals,
    stacks,
    stack,
    name: (of, minion, handles) =>
      registerHandles({
        ...{ stack: of, minion, handles, signals, stacks, mayRefer: () => stacks.includes(of) },
        log: createSilentLogger(),
      }),
    attribute: (path) => ({ endpoint: `${service.origin}/v1/${path}/signal`, token: 'tOken' }),
    sent: async (count) =>
      (await service.heard(count)).map((it) => `${it.path} ${JSON.parse(it.body).id}`).sort(),
  };
}

test('two stacks of one template have separate handles for the same alias', async (t) => {
  const { stack, name, attribute, signal, sent } = await place(t);
  t.deepEqual(await name(stack('one'), 'web1', { ready: attribute('one') }), []);
  t.deepEqual(await name(stack('two'), 'web2', { ready: attribute('two') }), []);
  for (const minion of ['web1', 'web2']) await signal(minion, 'heat/ready');
  t.deepEqual(await sent(2), ['/v1/one/signal web1', '/v1/two/signal web2']);
});

test('a later stack takes the minion from the handle of an earlier one, but not vice versa', async (t) => {
  const { stack, name, attribute, signal, sent, handles } = await place(t);
  const [one, two] = [stack('one'), stack('two')];
  await name(one, 'web1', { ready: attribute('one') });
  await name(two, 'web1', { ready: attribute('two') });
  const [problem] = await name(one, 'web1', { ready: attribute('one') });
  t.regex(problem ?? '', /^handle not registered: ready: a handle with this alias already exists/);
  await signal('web1', 'heat/ready');
  t.deepEqual(await sent(1), ['/v1/two/signal web1']);
  t.deepEqual(
    (await handles.list()).map((it) => it.stack),
    ['stack two'],
  );
});

test('a stack that may no longer address a minion registers no handle for it', async (t) => {
  const { stack, stacks, name, attribute, handles } = await place(t);
  const one = stack('one');
  stacks.pop();
  const [problem] = await name(one, 'web1', { ready: attribute('one') });
  t.regex(problem ?? '', /the stack may no longer address the minion web1/);
  t.deepEqual(await handles.list(), []);
});

test('the handle of a removed stack releases its minion', async (t) => {
  const { stack, stacks, name, attribute, handles } = await place(t);
  await name(stack('one'), 'web1', { ready: attribute('one') });
  stacks.length = 0;
  t.deepEqual(await name(stack('again'), 'web1', { ready: attribute('two') }), []);
  t.deepEqual(
    (await handles.list()).map((it) => it.stack),
    ['stack again'],
  );
});

test('handles of an operator and of other owners keep their minion', async (t) => {
  const { stack, name, attribute, handles } = await place(t);
  await handles.add({ alias: 'ready', minions: ['web1'], signal: attribute('operator') });
  t.is((await name(stack('one'), 'web1', { ready: attribute('one') })).length, 1);
  await name(stack('two', 'p'), 'web2', { ready: attribute('two') });
  t.is((await name(stack('three', 'q'), 'web2', { ready: attribute('three') })).length, 1);
});

test('servers of one stack with different handles under one alias signal their own', async (t) => {
  const { stack, name, attribute, signal, sent } = await place(t);
  const one = stack('one');
  await name(one, 'web1', { ready: attribute('a') });
  await name(one, 'web2', { ready: attribute('b') });
  for (const minion of ['web1', 'web2']) await signal(minion, 'heat/ready');
  t.deepEqual(await sent(2), ['/v1/a/signal web1', '/v1/b/signal web2']);
});

test('servers of one stack with the same handle share it', async (t) => {
  const { stack, name, attribute, handles } = await place(t);
  const one = stack('one');
  for (const minion of ['web1', 'web2']) await name(one, minion, { ready: attribute('a') });
  t.deepEqual(
    (await handles.list()).map((it) => it.minions),
    [['web1', 'web2']],
  );
});

test('handles that the metadata no longer names are removed, and a removed stack removes its own', async (t) => {
  const { stack, name, attribute, handles, ofStacks } = await place(t);
  const one = stack('one');
  await name(one, 'web1', { ready: attribute('a'), done: attribute('b') });
  await name(one, 'web1', { done: attribute('b') });
  t.deepEqual(
    (await handles.list()).map((it) => it.alias),
    ['done'],
  );
  await ofStacks.withdraw(handlesOf(one));
  t.deepEqual(await handles.list(), []);
});

test('a server can name a handle whose events without data count as SUCCESS', async (t) => {
  const { stack, name, attribute, handles } = await place(t);
  const named = { signal: attribute('a'), emptyIsSuccess: true };
  await name(stack('one'), 'web1', { ready: named, other: attribute('b') });
  t.deepEqual(
    (await handles.list()).map((it) => [it.alias, it.emptyIsSuccess]),
    [
      ['other', false],
      ['ready', true],
    ],
  );
});

test('signals without a handle are listed for their minions', async (t) => {
  const { signal, unclaimedOf, handles, attribute } = await place(t);
  await handles.add({ alias: 'ready', minions: ['web1'], signal: attribute('a') });
  for (const alias of ['ready', 'reday']) await signal('web1', `heat/${alias}`);
  await signal('web2', 'heat/reday');
  const found = await unclaimedOf(new Set(['web1']));
  t.deepEqual(
    found.map(({ alias, minion, state }) => [alias, minion, state]),
    [['reday', 'web1', 'held']],
  );
});
