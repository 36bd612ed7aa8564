/** Short form of `npm run campaign -- edge`: counts without times. */

import test from 'ava';
import { distinctInputs } from '../campaigns/edge/nodes.ts';
import { runEdgePlan } from '../campaigns/edge/run.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

test('five sites get deltas, share renderings, and return with all that their logs have kept', async (t) => {
  t.timeout(600_000);
  const plan = {
    seed: 1,
    sites: 5,
    sitesOfProcess: 3,
    sizes: { files: 100, bytesOfFile: 20_000, rules: 1100 },
    backlog: { alarms: 5, returns: 50, bytesOfReturn: 2000 },
    absence: {
      hours: 72,
      logBytes: 2 ** 20,
      returnsPerHour: 10,
      bytesOfReturn: 1500,
      factsEvery: 8,
    },
    idleMs: 0,
    awayMs: 0,
    stepMs: 120_000,
  };
  const { whole, small, pillars, absence, problems } = await runEdgePlan(
    plan,
    temporaryDirectory(t),
    (line) => t.log(line),
  );
  t.deepEqual(problems, []);
  t.true(small.packBytes * 5 < whole.packBytes);
  t.true(pillars.mostOfSite <= distinctInputs);
  t.true(pillars.ofCentre <= distinctInputs);
  t.is(absence.log.alarm.dropped, 0);
  t.true(absence.log.fact.dropped > 0);
  t.true(absence.log.return.dropped > 0);
  t.true(absence.largestBytes <= plan.absence.logBytes);
});
