/** Runs `npm run example -- heat-deployments` with a real Heat and minions in one process. */
import { deployments } from '../../examples/heat/deployments.example.ts';
import { stepsOf, whereRunnable } from '../helpers/examples.ts';

whereRunnable(deployments)(
  'each step of the example of software deployments shows what it should',
  async (t) => {
    t.timeout(300_000);
    const titles = await stepsOf(deployments);
    t.true(titles.includes('add a member: the deployment runs only on the new server'));
  },
);
