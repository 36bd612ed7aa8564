/**
 * A master is not running when a command ends. The return arrives when the minion is no longer
 * asked about the job.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { connectExtension } from '#client';
import { isWireMap, type WireValue } from '#minion-protocol';
import { until, within } from '../helpers/deadline.ts';
import { startKillable } from '../helpers/killable-master.ts';

const catalog = `
site.work: { description: x, function: site.work, reviewed: made for this test alone, timeout: 300 }
`;
const configuration = `
auto_accept: true
timeout: 5
gather_job_timeout: 3
saltbridge:
  bridge: { catalog: [commands.yaml] }
`;

test('a command succeeds if its return is repeated long after the master restarts', async (t) => {
  t.timeout(180_000);
  const field = await startKillable(t, configuration, { 'commands.yaml': catalog });
  let runs = 0;
  const { promise: held, resolve: goOn } = Promise.withResolvers<void>();
  await field.join('web1', {
    'site.work': async () => {
      runs += 1;
      await held;
      return `run ${runs}`;
    },
    // Salt's minions remove a job from their list before they send its return.
    'saltutil.find_job': () => ({}),
  });
  const bridge = connectExtension({ socketPath: field.socketPath }, 'bridge');
  const run = { command: 'site.work', tgt: 'web1', idempotencyKey: 'k' };
  const follow = async (): Promise<WireValue | undefined> => {
    let last: WireValue | undefined;
    for await (const update of bridge.stream('run', run)) last = update as WireValue;
    return last;
  };
  const interrupted = follow().catch(() => undefined);
  await until('the run to begin', () => runs === 1);
  await field.master.kill();
  await interrupted;
  await sleep(15_000);
  field.master.spawn();
  await within('the master', field.master.ready());
  const resumed = follow();
  await sleep(50_000);
  goOn();
  const last = await resumed;
  const outcome = isWireMap(last) && isWireMap(last.outcome) ? last.outcome : {};
  t.like(outcome, { status: 'succeeded', results: [{ return: 'run 1' }] });
  t.is(runs, 1);
});
