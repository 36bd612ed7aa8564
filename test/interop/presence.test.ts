/** Real minions that reconnect: after a restart of the master, and behind a shared address. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import { allow } from '#acl';
import type { MasterOptions } from '#config';
import { type Bridge, createBridge } from '#guests';
import type { CommandDefinition } from '#heat-bridge';
import type { ExtensionHost } from '#master';
import { EventLog } from './event-log.ts';
import { eventually } from './eventually.ts';
import { Fleet } from './fleet.ts';
import { MasterHome, type OurMaster } from './our-master.ts';
import { steps } from './programs.ts';

const step = steps('SALT_MINION');

const pause: CommandDefinition = {
  name: 'site.pause',
  description: 'Sleeps.',
  function: 'test.sleep',
  parameters: {
    type: 'object',
    required: ['length'],
    properties: { length: { type: 'number' } },
  },
  timeoutSeconds: 300,
};

const rule = allow('pause', {
  subject: { service: 'bridge' },
  action: 'command',
  resource: { fun: 'site.pause' },
});

interface Stage extends OurMaster {
  readonly host: ExtensionHost;
  readonly bridge: Bridge;
}

async function start(t: ExecutionContext, home: MasterHome): Promise<Stage> {
  let host: ExtensionHost | undefined;
  const probe = {
    name: 'probe',
    open: async (given: ExtensionHost) => {
      host = given;
      return {};
    },
  };
  const bridge = createBridge({ commands: [pause] });
  const master = await home.startHere(undefined, { extensions: [bridge, probe] });
  t.teardown(() => master.close());
  if (host === undefined) throw new Error('the extension was not opened');
  return { ...master, host, bridge };
}

async function openHome(t: ExecutionContext): Promise<MasterHome> {
  const acl: MasterOptions['acl'] = { rules: [rule] };
  const home = await MasterHome.create({ acl, timeout: 5, gatherJobTimeout: 5 });
  t.teardown(() => home.dispose());
  return home;
}

async function enrol(
  t: ExecutionContext,
  home: MasterHome,
  { api }: OurMaster,
  extra = '',
): Promise<Fleet> {
  const fleet = await Fleet.create({ ...home.ports, name: 'presence', extra });
  t.teardown(() => fleet.dispose());
  await fleet.enrol(api, new EventLog(await api.events.subscribe()));
  return fleet;
}

step(
  'idle minions are reachable after a restart of the master, but a dead one is not',
  async (t) => {
    const home = await openHome(t);
    const first = await start(t, home);
    const fleet = await enrol(t, home, first);
    const [dead, ...others] = fleet.minions;
    if (dead === undefined) return t.fail();
    await first.close();
    const second = await start(t, home);
    for (const { id } of fleet.minions) {
      await eventually(`${id} to answer`, () => second.host.isReachable(id));
    }
    await dead.kill();
    await sleep(6_000);
    t.false(await second.host.isReachable(dead.id));
    for (const { id } of others) t.true(await second.host.isReachable(id));
  },
);

step('minions with source_address are reachable at once', async (t) => {
  const home = await openHome(t);
  const master = await start(t, home);
  const fleet = await enrol(t, home, master, 'source_address: 127.0.0.3');
  await fleet.each(async ({ id }) => {
    const begin = performance.now();
    t.true(await master.host.isReachable(id));
    t.true(performance.now() - begin < 4_000, id);
  });
});

step('a command that ends during an outage of the master succeeds', async (t) => {
  const home = await openHome(t);
  const first = await start(t, home);
  const fleet = await enrol(t, home, first);
  const request = { target: fleet.ids, params: { length: 8 }, idempotencyKey: 'pause' };
  const begun = await first.bridge.run('site.pause', request);
  for await (const update of begun.updates()) if (update.type === 'published') break;
  await sleep(3_000);
  await first.close();
  await sleep(18_000);
  const second = await start(t, home);
  const { outcome } = await second.bridge.run('site.pause', request);
  const { status, results } = await outcome;
  t.deepEqual(
    [status, results.map(({ state }) => state)],
    ['succeeded', fleet.ids.map(() => 'succeeded')],
  );
});
