/** Real minions whose master is killed, started again, and immediately gets a job. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import { EventLog } from './event-log.ts';
import { Fleet } from './fleet.ts';
import { MasterHome } from './our-master.ts';
import { minionProgramsOf, steps } from './programs.ts';

const step = steps('SALT_MINION');

step(
  'over ZeroMQ every minion runs a job once that is published right after the restart',
  async (t) => {
    await killAndAsk(t, 'zeromq', await minionProgramsOf(() => true), 5);
  },
);

step(
  'with zmq_filtering every minion runs a job once that is published right after the restart',
  async (t) => {
    const programs = await minionProgramsOf(() => true);
    await killAndAsk(t, 'zeromq', programs, 5, { zmqFiltering: true }, 'zmq_filtering: True');
  },
);

/**
 * Over TCP and WebSocket, minions of 3007 and later never reconnect. Those of 3006 take up to a
 * minute.
 */
step('over TCP minions up to 3006 run a job once after they have reconnected', async (t) => {
  const programs = await minionProgramsOf((release) => release < 3007);
  t.log(`${programs.length} minions up to 3006 are named by SALT_MINION`);
  if (programs.length > 0) await killAndAsk(t, 'tcp', programs, 60);
  t.pass();
});

async function killAndAsk(
  t: ExecutionContext,
  transport: 'zeromq' | 'tcp',
  programs: readonly string[],
  reconnectWaitSeconds: number,
  options: Parameters<typeof MasterHome.create>[0] = {},
  extra = '',
): Promise<void> {
  const home = await MasterHome.create({ transport, reconnectWaitSeconds, ...options });
  t.teardown(() => home.dispose());
  const first = await home.startProcess();
  t.teardown(() => first.kill());
  const fleet = await Fleet.create(
    { ...home.ports, name: 'restart', extra: `transport: ${transport}\n${extra}` },
    programs,
  );
  t.teardown(() => fleet.dispose());
  await fleet.enrol(first.api, new EventLog(await first.api.events.subscribe()));
  await fleet.ask(first.api, { fun: 'test.ping' });

  await first.kill();
  const second = await home.startProcess();
  t.teardown(() => second.kill());
  const note = path.join(home.directory, 'note');
  const asked = await fleet.ask(second.api, {
    fun: 'cmd.run',
    arg: [`echo done >> ${note}`],
    kwarg: { python_shell: true },
  });
  t.deepEqual([...asked.returns.keys()].sort(), [...fleet.ids]);
  // A second publication checks that serials still increase for all of them.
  await fleet.ask(second.api, { fun: 'test.ping' });
  t.is(readFileSync(note, 'utf8').trim().split('\n').length, fleet.ids.length);
}
