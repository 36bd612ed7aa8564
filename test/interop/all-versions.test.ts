/** Real minions of all versions in SALT_MINION, with one master at the same time. */
import { mkdirSync, readdirSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import type { MasterEvent } from '#master';
import { isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import { EventLog } from './event-log.ts';
import { eventually } from './eventually.ts';
import { Fleet, pended, runJob } from './fleet.ts';
import { keptReturns } from './kept-returns.ts';
import { MasterHome, type OurMaster } from './our-master.ts';
import { minionPrograms, steps } from './programs.ts';
import type { RealMinion } from './real-minion.ts';
import { describeText, plain, withoutPublication } from './values.ts';

const step = steps('SALT_MINION');

let home: MasterHome;
let fleet: Fleet;
let master: OurMaster;
let events: EventLog;

function pillarOf(id: string): WireMap {
  return { colour: 'blue', of: id };
}

async function startMaster(): Promise<void> {
  master = await home.startHere(async ({ id }) => pillarOf(id));
  events = new EventLog(await master.api.events.subscribe());
}

test.before(async () => {
  if (minionPrograms.length === 0) return;
  home = await MasterHome.create();
  // Since 3005, a minion truncates its returns to its own max_event_size, which is 1 MiB by
  // default.
  fleet = await Fleet.create({ ...home.ports, extra: 'max_event_size: 16777216' });
  await startMaster();
});

test.after.always(async () => {
  await fleet?.dispose();
  await master?.close();
  home?.dispose();
});

step('pending minions answer once accepted, without a restart of either side', async (t) => {
  await fleet.enrol(master.api, events);
  const { returns } = await fleet.ask(master.api, { fun: 'test.ping' });
  for (const [id, result] of returns) t.is(result.return, true, id);
});

step('a command returns its output and its exit code', async (t) => {
  const { returns } = await fleet.ask(master.api, {
    fun: 'cmd.run',
    arg: ['echo out; exit 3'],
    kwarg: { python_shell: true },
  });
  for (const [id, result] of returns) {
    t.is(result.return, 'out', id);
    t.is(result.retcode, 3, id);
    t.is(result.success, false, id);
  }
});

step('grains arrive completely', async (t) => {
  const { returns } = await fleet.ask(master.api, { fun: 'grains.items' });
  for (const { id, version } of fleet.minions) {
    const grains = returns.get(id)?.return;
    if (!isWireMap(grains)) return t.fail(`${id}: grains are no map`);
    t.is(grains.id, id);
    t.is(grains.role, 'interop', id);
    t.true(String(grains.saltversion).startsWith(version), id);
  }
});

step('a return of 5 MB arrives byte for byte', async (t) => {
  const bytes = 5 * 1024 * 1024;
  const numbers = Array.from({ length: 900_000 }, (_, index) => index + 1);
  // cmd.run removes a line feed at the end.
  const expected = numbers.join('\n').slice(0, bytes).trimEnd();
  const { returns } = await fleet.ask(master.api, {
    fun: 'cmd.run',
    arg: [`seq 1 ${numbers.length} | head -c ${bytes}`],
    kwarg: { python_shell: true },
  });
  const arrived = fleet.ids.map((id) => [id, describeText(returns.get(id)?.return)]);
  t.deepEqual(
    arrived,
    fleet.ids.map((id) => [id, describeText(expected)]),
  );
});

step('arguments of every kind reach the function and return unchanged', async (t) => {
  const arg: WireValue[] = [
    'Grüße aus Halle 🧂',
    '',
    Buffer.from('00ff80feff', 'hex'),
    -1,
    1.5,
    2n ** 63n,
    2n ** 64n - 1n,
    -(2n ** 63n),
    null,
    true,
    ['a', ['b', []]],
    new Map<WireValue, WireValue>([
      [1, new Map<WireValue, WireValue>([[2, { deep: ['ü', 3] }]])],
      [-7, 'negative'],
    ]),
  ];
  const kwarg = { name: 'Grüße', empty: '', list: [1, 'zwei'], map: { a: { b: null } } };
  const { returns } = await fleet.ask(master.api, { fun: 'test.arg', arg, kwarg });
  for (const [id, result] of returns) {
    if (!isWireMap(result.return)) return t.fail(`${id}: no map`);
    t.deepEqual(plain(result.return.args), plain(arg), id);
    t.deepEqual(plain(withoutPublication(result.return.kwargs)), plain(kwarg), id);
  }
});

step('an integer beyond 64 bits reaches the function as decimal text', async (t) => {
  const { returns } = await fleet.ask(master.api, { fun: 'test.arg', arg: [2n ** 70n] });
  for (const [id, result] of returns) {
    if (!isWireMap(result.return)) return t.fail(`${id}: no map`);
    t.deepEqual(result.return.args, [String(2n ** 70n)], id);
  }
});

step('each minion has its own pillar, in jobs and in salt-call', async (t) => {
  const { returns } = await fleet.ask(master.api, { fun: 'pillar.items' });
  for (const [id, result] of returns) t.deepEqual(plain(result.return), plain(pillarOf(id)));
  const mark = events.length;
  await fleet.each(async (minion) => {
    t.is(await minion.saltCall('pillar.get', 'of'), `local: ${minion.id}\n`);
    const isReturn = ({ data }: MasterEvent): boolean =>
      data.fun === 'pillar.get' && data.id === minion.id;
    await events.seen('the return of salt-call', isReturn, { from: mark });
  });
});

step('a state runs', async (t) => {
  const { returns } = await fleet.ask(master.api, {
    fun: 'state.single',
    arg: ['test.succeed_with_changes'],
    kwarg: { name: 'it' },
  });
  for (const [id, { return: states }] of returns) {
    const state = isWireMap(states) ? Object.values(states)[0] : undefined;
    t.true(isWireMap(state) && state.result === true, id);
  }
});

step(
  'an event that no rule permits is not emitted, and the minion continues to work',
  async (t) => {
    const { returns } = await fleet.ask(master.api, { fun: 'event.send', arg: ['my/tag'] });
    for (const [id, result] of returns) t.is(result.return, true, id);
    // The minion may send the event after the return of the function that fired it.
    await eventually('the denial of each event', async () => {
      const denied = (await master.api.events.denials()).filter(({ tag }) => tag === 'my/tag');
      return fleet.ids.every((id) => denied.some(({ minion }) => minion === id));
    });
    t.false(events.has('my/tag'));
    await fleet.ask(master.api, { fun: 'test.ping' });
  },
);

step('after a restart of the master jobs are answered without a sign-in', async (t) => {
  await master.close();
  await startMaster();
  await fleet.connected(master.api);
  await fleet.ask(master.api, { fun: 'test.ping' });
  t.deepEqual(master.signIns, []);
});

step('a killed master loses no acknowledged return and needs no sign-in', async (t) => {
  await master.close();
  const killed = await home.startProcess();
  await fleet.connected(killed.api);
  const before = await fleet.ask(killed.api, { fun: 'test.ping' });
  const jid = await startSleeping(killed);
  const answered: string[] = [];
  for await (const update of killed.api.jobs.run({
    tgt: '*',
    fun: 'test.ping',
    timeoutSeconds: 60,
  })) {
    if (update.type !== 'return') continue;
    answered.push(update.jid, update.minion);
    await killed.kill();
    break;
  }

  const next = await home.startProcess();
  master = next;
  const told = new EventLog(await next.api.events.subscribe({ match: `salt/job/${jid}/ret/*` }));
  await fleet.connected(next.api);
  await fleet.ask(next.api, { fun: 'test.ping' });
  await fleet.each(({ id }) => told.seen(`${id}'s return`, ({ data }) => data.id === id));
  await next.close();
  t.deepEqual(next.signIns, []);

  const kept = await keptReturns(home, [before.jid, jid, answered[0] ?? '']);
  t.deepEqual(kept.get(before.jid), fleet.ids);
  t.deepEqual(kept.get(jid), fleet.ids);
  t.true(kept.get(answered[0] ?? '')?.includes(answered[1] ?? ''));
  await startMaster();
  await fleet.connected(master.api);
});

step('a minion that was killed and started again answers again', async (t) => {
  const mark = events.length;
  await Promise.all(fleet.minions.map((minion) => minion.kill()));
  fleet.start();
  await fleet.started(events, mark);
  const { returns } = await fleet.ask(master.api, { fun: 'test.ping' });
  t.is(returns.size, fleet.minions.length);
});

step('a job longer than the timeout is queried until its return arrives', async (t) => {
  const outcome = await fleet.ask(master.api, {
    fun: 'test.sleep',
    arg: [20],
    timeoutSeconds: 2,
    gatherJobTimeoutSeconds: 20,
  });
  t.true(outcome.runningRounds > 1);
  for (const [id, result] of outcome.returns) t.is(result.return, true, id);
});

step('a minion that is stopped is reported silent', async (t) => {
  const [stopped, ...others] = fleet.minions;
  if (stopped === undefined) return t.fail('no minion');
  await stopped.kill();
  const outcome = await runJob(master.api, {
    tgt: '*',
    fun: 'test.ping',
    timeoutSeconds: 10,
    gatherJobTimeoutSeconds: 3,
  });
  t.deepEqual(outcome.silent, [stopped.id]);
  t.deepEqual([...outcome.returns.keys()].sort(), others.map(({ id }) => id).sort());
  const mark = events.length;
  stopped.start();
  const tag = `salt/minion/${stopped.id}/start`;
  await events.seen(tag, (it) => it.tag === tag, { from: mark });
});

/**
 * Returns the exit code of a minion whose key is rejected. With a salt-master, a minion of 3008 ends
 * with 0 too.
 */
function rejectedCode({ version }: RealMinion): number {
  return Number.parseFloat(version) >= 3008 ? 0 : 77;
}

step('a minion whose pending key is rejected ends, with code 77 up to 3007', async (t) => {
  const strangers = await Fleet.create({ ...home.ports, name: 'stranger' });
  t.teardown(() => strangers.dispose());
  strangers.start();
  await strangers.pending(events);
  await master.api.keys.reject({ match: 'stranger-*' });
  await strangers.each(async (minion) =>
    t.is(await minion.exited(60_000), rejectedCode(minion), minion.id),
  );
});

step('a second minion with the same id is denied, and the first continues to work', async (t) => {
  const doubles = await Fleet.create(home.ports);
  t.teardown(() => doubles.dispose());
  doubles.start();
  await doubles.each(async (minion) =>
    t.is(await minion.exited(90_000), rejectedCode(minion), minion.id),
  );
  const denied = (await master.api.keys.list()).filter(({ state }) => state === 'denied');
  t.deepEqual(denied.map(({ id }) => id).sort(), fleet.ids);
  await fleet.ask(master.api, { fun: 'test.ping' });
});

step(
  'minions whose keys are deleted become pending and get no job, and others are not affected',
  async (t) => {
    const halves = [0, 1].map((half) => fleet.ids.filter((_id, index) => index % 2 === half));
    for (const [round, deleted] of halves.entries()) {
      // With a single version, no other minion could continue.
      if (deleted.length > 0 && deleted.length < fleet.ids.length)
        await deleteKeys(t, deleted, round);
    }
    await fleet.ask(master.api, { fun: 'test.ping' });
  },
);

/**
 * Deletes keys, checks which minions still work, and accepts the minions again without a restart.
 */
async function deleteKeys(
  t: ExecutionContext,
  deleted: readonly string[],
  round: number,
): Promise<void> {
  const others = fleet.ids.filter((id) => !deleted.includes(id));
  const cwd = path.join(home.directory, `traces-${round}`);
  mkdirSync(cwd);
  const trace = {
    tgt: '*',
    fun: 'cmd.run',
    arg: ['touch {{ grains.id }}'],
    kwarg: { template: 'jinja', cwd },
  };
  const mark = events.length;
  for (const match of deleted) await master.api.keys.delete({ match });
  await events.seen('the rotation', ({ tag }) => tag === 'key', { from: mark });
  const outcome = await runJob(master.api, trace);
  t.deepEqual([...outcome.returns.keys()].sort(), others);
  for (const id of deleted) await pended(events, id, mark);
  await runJob(master.api, trace);
  t.deepEqual(readdirSync(cwd).sort(), others);

  const accepted = events.length;
  for (const match of deleted) await master.api.keys.accept({ match });
  for (const id of deleted) {
    const isBack = ({ tag, data }: MasterEvent): boolean =>
      tag === 'salt/auth' && data.act === 'accept' && data.id === id;
    await events.seen(`${id} to be back`, isBack, { from: accepted });
  }
  await fleet.connected(master.api);
}

/** Publishes a job that lasts longer than the master, without waiting for it. */
async function startSleeping({ api }: OurMaster): Promise<string> {
  for await (const update of api.jobs.run({ tgt: '*', fun: 'test.sleep', arg: [15] })) {
    if (update.type === 'published') return update.jid;
  }
  throw new Error('the job was not published');
}
