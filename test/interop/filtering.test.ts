/** Real minions and a master that both use `zmq_filtering`. */
import { EventLog } from './event-log.ts';
import { Fleet, runJob } from './fleet.ts';
import { MasterHome } from './our-master.ts';
import { steps } from './programs.ts';

steps('SALT_MINION')(
  'minions that filter answer jobs for all, for one and for a list',
  async (t) => {
    const home = await MasterHome.create({ zmqFiltering: true });
    t.teardown(() => home.dispose());
    const master = await home.startHere();
    t.teardown(() => master.close());
    const fleet = await Fleet.create({ ...home.ports, extra: 'zmq_filtering: True' });
    t.teardown(() => fleet.dispose());
    await fleet.enrol(master.api, new EventLog(await master.api.events.subscribe()));

    const all = await fleet.ask(master.api, { fun: 'test.ping' });
    t.is(all.returns.size, fleet.ids.length);
    for (const id of fleet.ids) {
      const one = await runJob(master.api, { tgt: id, fun: 'test.ping' });
      t.deepEqual([...one.returns.keys()], [id]);
      const listed = await runJob(master.api, { tgt: [id], tgtType: 'list', fun: 'test.ping' });
      t.deepEqual([...listed.returns.keys()], [id]);
    }
  },
);
