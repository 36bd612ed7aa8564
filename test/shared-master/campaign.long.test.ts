/** Runs the campaign `processes` for a short time, with a fixed seed. */
import test from 'ava';
import { runSharedProcesses } from '../campaigns/processes.ts';

test('acknowledged work survives any end of the holder, and nothing runs twice', async (t) => {
  t.timeout(600_000);
  const { problems, ...figures } = await runSharedProcesses(
    {
      ends: 3,
      seed: 20_261_122,
      processes: 3,
      minions: 4,
      jobsPerSecond: 10,
      signalsPerSecond: 20,
      takeoverAfter: 3,
      programs: [],
      stopEvery: 3,
      shortestLifeMs: 500,
      longerLifeMs: 1500,
    },
    (done, text) => t.log(`${done}: ${text}`),
  );
  t.log(figures);
  // The duration depends on the machine, which may be busy.
  t.deepEqual(
    problems.filter((it) => !it.startsWith('a call took')),
    [],
  );
  t.like(figures, { ends: 3, stops: 1 });
  t.true(figures.jobs > 0 && figures.signals > 0 && figures.returns > 0);
});
