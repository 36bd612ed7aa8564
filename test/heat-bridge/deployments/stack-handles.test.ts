/** What a stack may signal as its minions, and what it is told of a signal that is not taken. */
import test from 'ava';
import { createHandleSignaller } from '#guests/deployments/stack-handles.ts';
import type { HandleInfo } from '#heat-bridge';
import type { AcceptResult } from '#heat-bridge/signals/outbox.ts';
import { SignalIntake } from '#heat-bridge/signals/signal-intake.ts';

const handle: HandleInfo = {
  ...{ alias: 'ready', id: 'h', transport: 'TOKEN_SIGNAL', origin: 'http://heat', isListed: true },
  ...{ minions: ['web1'], members: [], stack: 'stack demo', owner: 'p' },
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
    ...{ held: undefined, admission: { keyOf: () => undefined }, maxBytes: 1000, now: () => 1 },
    reports: { accepted: () => {}, held: () => {}, refused: () => {} },
    ...more,
  });
  const stack = { owner: 'p', registration: { name: 'demo' } };
  return createHandleSignaller(stack, { handleFor, intake });
}

test('a stack signals the handle that the alias means for its minion, or none', async (t) => {
  t.deepEqual(await signaller({})('web1', 'ready', signal), { kind: 'delivered' });
  for (const other of [{ owner: 'q' }, { stack: 'stack other' }]) {
    const reason = 'the stack has registered no handle ready';
    t.deepEqual(await signaller(other)('web1', 'ready', signal), { kind: 'final', reason });
  }
});

test('a signal that is not taken is not delivered: it is tried again where there may be room', async (t) => {
  const full = signaller({}, { kind: 'full', quota: 'perMinion' });
  t.deepEqual(await full('web1', 'ready', signal), {
    kind: 'again',
    reason: 'the handle ready took no signal: too many signals of this minion wait',
  });
  const large = signaller({}, undefined, { maxBytes: 10 });
  t.like(await large('web1', 'ready', signal), { kind: 'final' });
  const late = signaller({}, undefined, { now: () => 100 });
  t.deepEqual(await late('web1', 'ready', signal), {
    kind: 'final',
    reason: 'the handle ready took no signal: the handle has expired',
  });
});
