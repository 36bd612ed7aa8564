/** `max_minions`, beyond what is recorded: who is let in all the same. */
import test, { type ExecutionContext } from 'ava';
import { createFullnessCheck } from '../../../master/auth/sign-in.ts';
import { unpackWire } from '../../../minion-protocol/index.ts';
import { connectMinion, otherKey } from '../../helpers/connected-minion.ts';
import { startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';
import { base64, cases, keys, pem, text, vectorFile } from '../../helpers/vectors.ts';

const signIn = cases(vectorFile('auth'), 'cases').find(
  ({ name }) => text(name) === 'v0 max_minions reached',
);

/** A master with the vectors' minion accepted, and two others, of which one is one too many. */
function startMaster(t: ExecutionContext, maxMinions: number): Promise<VectorMaster> {
  return startVectorMaster(t, {
    config: { maxMinions, requestServerTtl: 0 },
    keys: [
      { directory: 'minions', id: keys.minionId, publicPem: pem('minion').publicPem },
      otherKey('a'),
      otherKey('b'),
    ],
  });
}

/** A second later, because so long a count holds. */
async function isFull({ ask, clock }: VectorMaster): Promise<boolean> {
  clock.now += 1000;
  const reply = await ask(base64(signIn?.request_b64));
  return JSON.stringify(unpackWire(reply)).includes('full');
}

test('as many as the limit leave room for one more, as in Salt', async (t) => {
  const master = await startMaster(t, 1);
  await connectMinion(t, master, 'a', '192.0.2.1');
  t.false(await isFull(master));
  await connectMinion(t, master, 'b', '192.0.2.2');
  t.true(await isFull(master));
});

test('without a limit all are let in', async (t) => {
  const master = await startMaster(t, 0);
  await connectMinion(t, master, 'a', '192.0.2.1');
  await connectMinion(t, master, 'b', '192.0.2.2');
  t.false(await isFull(master));
});

test('a minion that is connected may sign in again, and one that leaves makes room', async (t) => {
  const master = await startMaster(t, 1);
  await connectMinion(t, master, 'a', '192.0.2.1');
  const b = await connectMinion(t, master, 'b', '192.0.2.2');
  await t.notThrowsAsync(connectMinion(t, master, 'a', '192.0.2.1'));
  t.true(await isFull(master));
  await b.stop();
  t.false(await isFull(master));
});

test('a topic that anybody may ask for takes no room, until its minion is heard from there', (t) => {
  const place = { transport: 'zeromq', address: '192.0.2.9' };
  const isFull = (isSure: boolean): boolean =>
    createFullnessCheck({
      rules: { maxMinions: 1 },
      lastHeard: { size: 2 },
      now: () => 0,
      present: () => [
        { id: 'a', ...place, by: 'announcement', isSure: true },
        { id: 'b', ...place, by: 'topic', isSure },
      ],
    })('c');
  t.false(isFull(false));
  t.true(isFull(true));
});

test('a second of sign-ins costs one count', (t) => {
  let now = 0;
  let counts = 0;
  const isFull = createFullnessCheck({
    rules: { maxMinions: 1 },
    lastHeard: { size: 2 },
    now: () => now,
    present: () => {
      counts += 1;
      return [];
    },
  });
  for (; now < 1000; now += 100) t.false(isFull('c'));
  t.is(counts, 1);
  isFull('c');
  t.is(counts, 2);
});
