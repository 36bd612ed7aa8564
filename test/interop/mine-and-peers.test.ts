/** The mine, peer publishing, schedules and beacons of real minions of all versions. */
import test from 'ava';
import { isWireMap, type WireValue } from '#minion-protocol';
import { EventLog } from './event-log.ts';
import { eventually } from './eventually.ts';
import { Fleet } from './fleet.ts';
import { MasterHome, type OurMaster } from './our-master.ts';
import { minionPrograms, steps } from './programs.ts';
import { plain } from './values.ts';

const step = steps('SALT_MINION');

let home: MasterHome;
let fleet: Fleet;
let master: OurMaster;
let events: EventLog;

const extra = `
mine_functions:
  test.ping: []
  hidden:
    - mine_function: test.echo
    - secret
    - allow_tgt: 'nobody*'
beacons:
  status:
    - interval: 2
    - loadavg: [1-min]
schedule:
  every:
    function: test.ping
    seconds: 5
    return_job: True
`;

test.before(async () => {
  if (minionPrograms.length === 0) return;
  home = await MasterHome.create({
    peer: { 'salt-.*': ['test\\.(ping|echo)'] },
    peerRun: { 'salt-.*': ['manage\\.alived'] },
  });
  fleet = await Fleet.create({ ...home.ports, extra });
  master = await home.startHere(async () => ({}));
  events = new EventLog(await master.api.events.subscribe());
});

test.after.always(async () => {
  await fleet?.dispose();
  await master?.close();
  home?.dispose();
});

/** Returns the output of salt-call on each minion. */
async function callEach(...args: readonly string[]): Promise<[string, string][]> {
  const answers: [string, string][] = [];
  for (const minion of fleet.minions) {
    const text = await minion.saltCall(...args);
    answers.push([minion.id, text.replace(/^local: /, '').trim()]);
  }
  return answers;
}

/** Whether a text in Python's notation is a map with the names of all minions. */
function namesAll(text: string): boolean {
  return fleet.ids.every((id) => text.includes(`'${id}': True`));
}

async function mineOf(fun: string): Promise<WireValue> {
  const { return: value } = await master.api.runners.run({ fun: 'mine.get', arg: ['*', fun] });
  return value;
}

step('minions fill the mine when they start', async (t) => {
  await fleet.enrol(master.api, events);
  await eventually('every minion in the mine', async () => {
    const mine = await mineOf('test.ping');
    return isWireMap(mine) && fleet.ids.every((id) => mine[id] === true);
  });
  t.pass();
});

step('minions read permitted mine values of one another, and no others', async (t) => {
  for (const [id, text] of await callEach('mine.get', '*', 'test.ping')) t.true(namesAll(text), id);
  const grain = ['mine.get', 'role:interop', 'test.ping', 'tgt_type=grain'];
  for (const [id, text] of await callEach(...grain)) t.true(namesAll(text), id);
  for (const [id, text] of await callEach('mine.get', '*', 'hidden')) {
    t.false(text.includes('secret'), `${id}: ${text}`);
  }
  const hidden = await mineOf('hidden');
  t.deepEqual(plain(hidden), plain(Object.fromEntries(fleet.ids.map((id) => [id, 'secret']))));
});

step('minions publish only what they may', async (t) => {
  for (const [id, text] of await callEach('publish.publish', '*', 'test.ping', 'timeout=30')) {
    t.true(namesAll(text), `${id}: ${text}`);
  }
  for (const [id, text] of await callEach('publish.publish', '*', 'cmd.run', 'id', 'timeout=2')) {
    t.is(text, '{}', id);
  }
});

step('minions run only the runners that they may', async (t) => {
  for (const [id, text] of await callEach('publish.runner', 'manage.alived')) {
    t.true(text.includes(id), `${id}: ${text}`);
  }
  for (const [id, text] of await callEach('publish.runner', 'cache.pillar')) t.is(text, '{}', id);
});

step('minions delete values from their mine', async (t) => {
  await callEach('mine.delete', 'test.ping');
  t.deepEqual(plain(await mineOf('test.ping')), plain({}));
  await callEach('mine.flush');
  t.deepEqual(plain(await mineOf('hidden')), plain({}));
});

step('scheduled jobs are stored with the name of their schedule', async (t) => {
  for (const id of fleet.ids) {
    const { data } = await events.seen(
      `a scheduled job of ${id}`,
      ({ tag, data }) => tag.endsWith(`/ret/${id}`) && data.schedule === 'every',
    );
    t.is(data.fun, 'test.ping', id);
    const { return: kept } = await master.api.runners.run({
      fun: 'jobs.lookup_jid',
      arg: [data.jid ?? ''],
    });
    t.deepEqual(plain(kept), plain({ [id]: true }));
  }
});

step('beacons are emitted under the id of their minion', async (t) => {
  for (const id of fleet.ids) {
    const { data } = await events.seen(`a beacon of ${id}`, ({ tag }) =>
      tag.startsWith(`salt/beacon/${id}/status/`),
    );
    t.is(data.id, id);
  }
});
