/** A few hundred of the bodies of `npm run campaign -- fuzz-http`, always the same. */
import test from 'ava';
import { createBridge } from '../../heat-bridge/index.ts';
import { fuzz } from '../campaigns/http-fuzz.ts';
import { startApi } from '../helpers/salt-api.ts';

test('no body makes the API fail, or read more in one step than it may', async (t) => {
  const bridge = createBridge({});
  const { port, login } = await startApi(t, {
    minions: [],
    config: { timeout: 0.05, gatherJobTimeout: 0.05 },
    extensions: [bridge],
    options: { plugins: [bridge.http], webhookDisableAuth: true, runnerTimeout: 2 },
  });
  const tokens = [await login(), await login('limited'), 'x'.repeat(40)];
  const outcome = await fuzz({ port, tokens }, { seed: 17, first: 0, count: 400 });
  t.deepEqual(outcome.problems, []);
  t.true((outcome.statuses.get(200) ?? 0) > 0);
  t.true((outcome.statuses.get(400) ?? 0) > 0);
});
