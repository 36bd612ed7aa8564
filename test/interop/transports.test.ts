/** Real minions of all versions in SALT_MINION over TCP and WebSocket. */
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import type { MasterOptions, TransportName } from '#config';
import { EventLog } from './event-log.ts';
import { Fleet, runJob } from './fleet.ts';
import { MasterHome, type OurMaster } from './our-master.ts';
import { minionProgramsOf, steps } from './programs.ts';
import { describeText } from './values.ts';

const step = steps('SALT_MINION');

/** Option that lets minions since 3005 send returns above 1 MiB without truncating them. */
const untrimmed = 'max_event_size: 16777216';

for (const transport of ['tcp', 'ws'] as const) {
  step(`minions over ${transport} answer, return 5 MB, and send events`, async (t) => {
    // WebSocket came with 3007. 3007.0 receives only one job over it, also from Salt's own master.
    const programs = await minionProgramsOf((release) => transport !== 'ws' || release > 3007);
    const { master, fleet, events } = await startFleet(t, transport, programs);
    t.is((await fleet.ask(master.api, { fun: 'test.ping' })).returns.size, fleet.ids.length);
    await returnsLargeText(t, master, fleet);
    for (const id of fleet.ids) {
      const { returns } = await runJob(master.api, {
        tgt: [id],
        tgtType: 'list',
        fun: 'grains.get',
        arg: ['id'],
      });
      t.is(returns.get(id)?.return, id);
    }
    t.true(fleet.ids.every((id) => events.has(`salt/minion/${id}/start`)));
  });
}

const certificates = path.resolve('test/fixtures/tls');
const named = (name: string): string => path.join(certificates, name);

/** Minions from 3007.0 on fail in salt/transport/base.py before its first TLS connection. */
step('minions up to 3006 with TLS and certificates on both sides answer', async (t) => {
  const ssl = {
    certfile: named('master.pem'),
    keyfile: named('master.key'),
    caCerts: named('ca.pem'),
    certReqs: 'CERT_REQUIRED',
  } as const;
  const extra = `ssl: {certfile: ${named('minion.pem')}, keyfile: ${named('minion.key')}, ca_certs: ${named('ca.pem')}, cert_reqs: CERT_REQUIRED}`;
  const programs = await minionProgramsOf((release) => release < 3007);
  const { master, fleet } = await startFleet(t, 'tcp', programs, { ssl }, extra);
  t.is((await fleet.ask(master.api, { fun: 'test.ping' })).returns.size, fleet.ids.length);
});

async function returnsLargeText(
  t: ExecutionContext,
  { api }: OurMaster,
  fleet: Fleet,
): Promise<void> {
  const bytes = 5 * 1024 * 1024;
  const numbers = Array.from({ length: 900_000 }, (_, index) => index + 1);
  // cmd.run removes a line feed at the end.
  const expected = numbers.join('\n').slice(0, bytes).trimEnd();
  const { returns } = await fleet.ask(api, {
    fun: 'cmd.run',
    arg: [`seq 1 ${numbers.length} | head -c ${bytes}`],
    kwarg: { python_shell: true },
  });
  for (const id of fleet.ids) {
    t.deepEqual(describeText(returns.get(id)?.return), describeText(expected), id);
  }
}

async function startFleet(
  t: ExecutionContext,
  transport: TransportName,
  programs: readonly string[],
  options: Partial<MasterOptions> = {},
  extra = '',
): Promise<{ master: OurMaster; fleet: Fleet; events: EventLog }> {
  const home = await MasterHome.create({ transport, ...options });
  t.teardown(() => home.dispose());
  const master = await home.startHere();
  t.teardown(() => master.close());
  const fleet = await Fleet.create(
    { ...home.ports, name: transport, extra: `transport: ${transport}\n${untrimmed}\n${extra}` },
    programs,
  );
  t.teardown(() => fleet.dispose());
  const events = new EventLog(await master.api.events.subscribe());
  await fleet.enrol(master.api, events);
  return { master, fleet, events };
}
