/** Real minions that sign their returns, with a master that rejects unsigned ones. */
import test from 'ava';
import { EventLog } from './event-log.ts';
import { Fleet } from './fleet.ts';
import { MasterHome, type OurMaster } from './our-master.ts';
import { minionPrograms, steps } from './programs.ts';

const step = steps('SALT_MINION');
const signing = { requireMinionSignMessages: true, dropMessagesSignatureFail: true };

let home: MasterHome;
let fleet: Fleet;
let master: OurMaster;

test.before(async () => {
  if (minionPrograms.length === 0) return;
  home = await MasterHome.create(signing);
  fleet = await Fleet.create({ ...home.ports, extra: 'minion_sign_messages: True' });
  master = await home.startHere();
});

test.after.always(async () => {
  await fleet?.dispose();
  await master?.close();
  home?.dispose();
});

step('signed returns of every kind of value arrive', async (t) => {
  await fleet.enrol(master.api, new EventLog(await master.api.events.subscribe()));
  for (const request of [
    { fun: 'test.ping' },
    { fun: 'test.arg', arg: ['x'.repeat(100), 'é'.repeat(40), 1.5, 2 ** 40, null, { 7: [true] }] },
    { fun: 'grains.items' },
    {
      fun: 'cmd.run',
      arg: ['head -c 100000 /dev/zero | tr "\\0" z'],
      kwarg: { python_shell: true },
    },
  ]) {
    const { returns } = await fleet.ask(master.api, request);
    t.is(returns.size, fleet.ids.length, request.fun);
  }
});
