/** Wait conditions of a real Heat, which real minions of several versions complete. */
import test from 'ava';
import { createBridge } from '#guests';
import { testWhere } from '../helpers/needs.ts';
import { EventLog } from './event-log.ts';
import { Fleet } from './fleet.ts';
import { cloud, Stack, services } from './heat-cloud.ts';
import { MasterHome, type OurMaster } from './our-master.ts';
import { steps } from './programs.ts';

const step =
  cloud === undefined ? testWhere(false, 'HEAT_ENV and SALT_MINION') : steps('SALT_MINION');
const bridge = createBridge();

let home: MasterHome;
let fleet: Fleet;
let master: OurMaster;

test.before(async () => {
  if (process.env.SALT_MINION === undefined || cloud === undefined) return;
  home = await MasterHome.create({
    acl: { signals: [{ tag: 'heat/*', minions: 'salt-*' }] },
    bridge: { handles: { endpoints: services() } },
  });
  fleet = await Fleet.create(home.ports);
  master = await home.startHere(undefined, { extensions: [bridge] });
  const events = new EventLog(await master.api.events.subscribe());
  await fleet.enrol(master.api, events);
});

test.after.always(async () => {
  await fleet?.dispose();
  await master?.close();
  home?.dispose();
});

step('real minions complete a condition, each counting once', async (t) => {
  const stack = await Stack.create('HEAT_SIGNAL', fleet.ids.length);
  await bridge.handles.add({ alias: 'ready', minions: fleet.ids, signal: await stack.handle() });
  const expected: Record<string, unknown> = {};
  for (const [index, minion] of fleet.minions.entries()) {
    const data = { version: minion.version, text: 'Grüße, 世界', index };
    const said = JSON.stringify({ reason: 'booted', data });
    await minion.saltCall('event.send', 'heat/ready', said);
    if (index === 0) await minion.saltCall('event.send', 'heat/ready', said);
    expected[minion.id] = data;
  }
  const { status, reason } = await stack.end();
  t.is(status, 'CREATE_COMPLETE', reason);
  t.deepEqual(await stack.data(), expected);
  await stack.delete();
});

step(
  'real minions that signal before the handle is registered complete the condition',
  async (t) => {
    const stack = await Stack.create('HEAT_SIGNAL', fleet.ids.length);
    const signal = await stack.handle();
    const said = JSON.stringify({ data: 'early' });
    for (const minion of fleet.minions) await minion.saltCall('event.send', 'heat/early', said);
    const held = (await bridge.outbox.list({ alias: 'early' })).map(({ state }) => state);
    t.deepEqual(
      held,
      fleet.ids.map(() => 'held'),
    );
    await bridge.handles.add({ alias: 'early', minions: fleet.ids, signal });
    const { status, reason } = await stack.end();
    t.is(status, 'CREATE_COMPLETE', reason);
    t.deepEqual(await stack.data(), Object.fromEntries(fleet.ids.map((id) => [id, 'early'])));
    await stack.delete();
  },
);

step('the failure of a real minion fails the stack with its reason', async (t) => {
  const stack = await Stack.create('HEAT_SIGNAL', 1);
  await bridge.handles.add({ alias: 'failing', minions: fleet.ids, signal: await stack.handle() });
  const said = JSON.stringify({ status: 'FAILURE', reason: 'disk full' });
  await fleet.minions[0]?.saltCall('event.send', 'heat/failing', said);
  const { status, reason } = await stack.end();
  t.is(status, 'CREATE_FAILED');
  t.true(reason.includes('disk full'), reason);
  await stack.delete();
});

for (const [what, said, expected] of [
  [
    'without its last brace',
    '{"status": "FAILURE", "reason": "disk full"',
    /neither YAML nor JSON/,
  ],
  ['with a raw tab', '{"status": "FAILURE", "reason": "disk\tfull"}', /neither YAML nor JSON/],
  ['with a surrogate pair', '{"status":"FAILURE","reason":"boom \\ud83d\\ude00"}', /boom \ufffd/],
] as const) {
  step(`a real minion that signals a failure ${what} fails the stack`, async (t) => {
    for (const [index, minion] of fleet.minions.entries()) {
      const stack = await Stack.create('HEAT_SIGNAL', 1);
      const alias = `unread-${what.replaceAll(' ', '-')}-${index}`;
      const signal = await stack.handle();
      await bridge.handles.add({ alias, minions: fleet.ids, signal, emptyIsSuccess: true });
      await minion.saltCall('event.send', `heat/${alias}`, said);
      const { status, reason } = await stack.end();
      t.is(status, 'CREATE_FAILED', minion.id);
      t.regex(reason, expected);
      await stack.delete();
    }
  });
}
