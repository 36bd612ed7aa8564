/** After a restart of the master: minions that are on their way back. */
import test from 'ava';
import { connectMaster } from '../../../client/index.ts';
import { LastHeard } from '../../../master/auth/last-heard.ts';
import { createMaster, type JobUpdate, resolveMasterConfig } from '../../../master/index.ts';
import { Reconnecting } from '../../../master/jobs/presence.ts';
import { createMemoryTransport, createMinion } from '../../../minion-protocol/index.ts';
import { createMemoryStore } from '../../../store/index.ts';
import { within } from '../../helpers/deadline.ts';
import { startKillable } from '../../helpers/killable-master.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { directories, writeMasterKeys } from '../../helpers/vector-master.ts';
import { pem } from '../../helpers/vectors.ts';

const from = { address: '192.0.2.1', transport: 'zeromq' };

function reconnecting(signedIn: readonly string[]) {
  const clock = { now: 1_000_000 };
  const lastHeard = new LastHeard();
  const it = new Reconnecting({ signedIn, waitMs: 3000, lastHeard, now: () => clock.now });
  return { it, clock, hear: (id: string) => lastHeard.note(id, clock.now, from) };
}

test('a publication is held while a minion that it is for is away', (t) => {
  const { it, hear } = reconnecting(['m1', 'm2']);
  t.is(it.holdMs(['m1', 'm9']), 3000);
  t.is(it.holdMs(['m9']), 0);
  hear('m1');
  t.is(it.holdMs(['m1']), 0);
  t.is(it.holdMs(['m1', 'm2']), 3000);
});

test('who comes back too late for a job was reconnecting, who comes in time is not', (t) => {
  const { it, clock, hear } = reconnecting(['late', 'quick', 'away']);
  const publishedAt = clock.now;
  clock.now += 2000;
  hear('quick');
  clock.now += 2000;
  hear('late');
  const of = (id: string, at = publishedAt): boolean => it.isReconnecting(id, at);
  t.deepEqual([of('late'), of('quick'), of('away'), of('other')], [true, false, true, false]);
  t.false(of('late', clock.now), 'it is here when the next one is published');
  t.false(of('late', publishedAt - 1), 'what the master before published was not missed by it');
});

test('two minutes after the start nobody is taken to be reconnecting', (t) => {
  const { it, clock } = reconnecting(['m1']);
  clock.now += 119_999;
  t.true(it.isReconnecting('m1', clock.now));
  clock.now += 1;
  t.false(it.isReconnecting('m1', clock.now));
  t.is(it.holdMs(['m1']), 0);
});

test('a job that is published right after the master was killed reaches minions that come back', async (t) => {
  t.timeout(60_000);
  const field = await startKillable(t, 'auto_accept: true\nsaltbridge:\n  reconnect_wait: 30\n');
  await Promise.all([field.join('m1'), field.join('m2')]);
  await field.master.kill();
  field.master.spawn();
  await within('the master', field.master.ready(), 20_000);
  const { jobs } = connectMaster({ socketPath: field.socketPath });
  const updates: JobUpdate[] = [];
  for await (const update of jobs.run({ tgt: '*', fun: 'test.ping', timeout: 40 })) {
    updates.push(update);
  }
  t.like(updates[0], { type: 'published', minions: ['m1', 'm2'] });
  const finished = updates.at(-1);
  if (finished?.type !== 'finished') return t.fail();
  t.deepEqual([...finished.answered].sort(), ['m1', 'm2']);
  t.is(updates.filter(({ type }) => type === 'return').length, 2);
});

test('a minion that stays away is reported as reconnecting, not as silent', async (t) => {
  const directory = temporaryDirectory(t);
  const store = createMemoryStore();
  const start = async () => {
    const memory = createMemoryTransport();
    const config = resolveMasterConfig({
      ...directories(directory),
      autoAccept: true,
      timeout: 0,
      gatherJobTimeout: 0,
    });
    writeMasterKeys(config.pkiDir);
    const master = createMaster({ config, store, transports: [memory.master] });
    t.teardown(() => master.close());
    await master.start();
    return { master, memory };
  };
  const before = await start();
  const keys = { ...pem('minion'), masterPem: undefined, trustMaster: async () => {} };
  const minion = createMinion({ id: 'm1', transport: before.memory.dial('m1'), keys });
  await minion.start();
  await minion.stop();
  await before.master.close();
  const { master } = await start();
  const request = { tgt: '*', fun: 'test.ping', timeout: 0.1, gatherJobTimeout: 0.1 };
  const updates: JobUpdate[] = [];
  for await (const update of master.jobs.run(request)) updates.push(update);
  const finished = updates.at(-1);
  t.like(finished, {
    type: 'finished',
    silent: [],
    reconnecting: ['m1'],
    deliveries: [{ minion: 'm1', state: 'reconnecting' }],
  });
  t.like((await master.jobs.list())[0]?.counts, { reconnecting: 1, silent: 0 });
});
