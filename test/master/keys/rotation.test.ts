/** How often deleted keys have the shared key replaced. */
import { randomBytes } from 'node:crypto';
import { setTimeout as nextTimer, setImmediate as nextTurn } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import { createSilentLogger } from '../../../master/api/log.ts';
import { Revocation } from '../../../master/auth/key-lifecycle.ts';
import { LastHeard } from '../../../master/auth/last-heard.ts';
import { PublishKey } from '../../../master/auth/publish-key.ts';
import { createSeal, SessionKeys } from '../../../master/auth/session-keys.ts';
import { VersionPins } from '../../../master/auth/version-pins.ts';
import { EventBus } from '../../../master/events/event-bus.ts';
import { ReplayCache } from '../../../master/requests/replay-cache.ts';
import { createMemoryStore } from '../../../store/index.ts';

interface Setting {
  readonly revocation: Revocation;
  readonly clock: { now: number };
  /** How often the key was replaced, once every timer that is due has run. */
  rotations(): Promise<number>;
}

async function start(t: ExecutionContext): Promise<Setting> {
  const clock = { now: 1_000_000 };
  const now = (): number => clock.now;
  const seal = createSeal(new Uint8Array(randomBytes(32)));
  const store = createMemoryStore({ now });
  const sign = async (): Promise<Uint8Array> => new Uint8Array(1);
  let rotated = 0;
  const revocation = new Revocation({
    sessions: await SessionKeys.open({ store, seal, lifetimeMs: 0, now }, () => true),
    pins: await VersionPins.open(store, 'auto'),
    repeats: new ReplayCache({ ttlSeconds: 300, now }),
    lastHeard: new LastHeard(),
    transports: [],
    publishKey: await PublishKey.open({ store, seal, sign, serialBlock: 10, now }),
    bus: new EventBus({ maxEventBytes: 0 }),
    rotates: true,
    onRotated: async () => {
      rotated += 1;
    },
    now,
    log: createSilentLogger(),
  });
  t.teardown(() => revocation.close());
  const rotations = async (): Promise<number> => {
    // Timers fire in the order of their time: one that was due before this has fired.
    await nextTimer(5);
    for (let turn = 0; turn < 10; turn += 1) await nextTurn();
    return rotated;
  };
  return { revocation, clock, rotations };
}

test('the first deletion rotates at once, more within a minute do not', async (t) => {
  const { revocation, clock, rotations } = await start(t);
  await revocation.revoke(['a']);
  t.is(await rotations(), 1);
  for (const id of ['b', 'c', 'd']) {
    clock.now += 10_000;
    await revocation.revoke([id]);
  }
  t.is(await rotations(), 1);
});

test('a deletion a minute after the last rotation rotates at once', async (t) => {
  const { revocation, clock, rotations } = await start(t);
  await revocation.revoke(['a']);
  t.is(await rotations(), 1);
  clock.now += 60_000;
  await revocation.revoke(['b']);
  t.is(await rotations(), 2);
});

test('many deletions at the same time cost one rotation', async (t) => {
  const { revocation, rotations } = await start(t);
  await Promise.all(['a', 'b', 'c', 'd'].map((id) => revocation.revoke([id])));
  t.is(await rotations(), 1);
});
