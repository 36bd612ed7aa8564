/**
 * A short run of the hostile-input matrix: one case for each request type, HTTP route, RPC method,
 * function, agent route and command. `npm run campaign -- hostile` runs it longer.
 */
import test from 'ava';
import { runMatrixProcess } from '../campaigns/hostile/run-matrix.ts';

test('hostile input to each entry of the tables causes bounded work, and the honest owner is served', async (t) => {
  t.timeout(600_000);
  const report = await runMatrixProcess({ seed: 47, rounds: 1, maxBytes: 60_000 });
  t.deepEqual(report.missing, [], 'entries without a row in test/campaigns/hostile');
  t.deepEqual(report.problems, []);
  t.true(report.cases > 450, `${report.cases} cases`);
});
