/** Real proxy minions of all versions in SALT_PROXY, with the dummy proxy module of Salt. */
import { isWireMap } from '#minion-protocol';
import { EventLog } from './event-log.ts';
import { Fleet } from './fleet.ts';
import { MasterHome } from './our-master.ts';
import { proxyPrograms, steps } from './programs.ts';

steps('SALT_PROXY')(
  'proxy minions get what they stand for from the pillar, and answer',
  async (t) => {
    const home = await MasterHome.create();
    t.teardown(() => home.dispose());
    const master = await home.startHere(async () => ({ proxy: { proxytype: 'dummy' } }));
    t.teardown(() => master.close());
    const options = { ...home.ports, name: 'proxy', isProxy: true } as const;
    const fleet = await Fleet.create(options, proxyPrograms);
    t.teardown(() => fleet.dispose());
    const events = new EventLog(await master.api.events.subscribe());
    await fleet.enrol(master.api, events);
    const pings = await fleet.ask(master.api, { fun: 'test.ping' });
    t.deepEqual(
      [...pings.returns.values()].map((it) => it.return),
      fleet.ids.map(() => true),
    );
    const grains = await fleet.ask(master.api, { fun: 'grains.items' });
    for (const [id, { return: items }] of grains.returns) {
      t.like(items, { id, os: 'proxy' }, id);
    }
    const packages = await fleet.ask(master.api, { fun: 'pkg.list_pkgs' });
    for (const [id, { return: list }] of packages.returns) t.true(isWireMap(list), id);
  },
);
