/** Runs `npm run example -- NAME` for the examples that need neither a salt-minion nor a cloud. */
import test from 'ava';
import { edge } from '../examples/edge/edge.example.ts';
import type { Example } from '../examples/example.ts';
import { fromSaltMaster } from '../examples/from-salt-master/from-salt-master.example.ts';
import { jenkins } from '../examples/jenkins/jenkins.example.ts';
import { pythonService } from '../examples/python-service/python-service.example.ts';
import { tenants } from '../examples/tenants/tenants.example.ts';
import { typescriptService } from '../examples/typescript-service/typescript-service.example.ts';
import { stepsOf, whereRunnable } from './helpers/examples.ts';

/** Examples, each with the step that its description promises. */
const examples: Readonly<Record<string, readonly [Example, string]>> = {
  edge: [edge, 'the return of the job and the outcome of the plan are at the centre, once'],
  'from-salt-master': [
    fromSaltMaster,
    'after saltbridge has stopped, the key directory is unchanged: salt-master can use it again',
  ],
  jenkins: [jenkins, 'the reaction may only run Puppet; the policy names the rule'],
  'python-service': [pythonService, 'a plan restarts the web servers one after the other'],
  tenants: [tenants, 'blue is closed, and red continues'],
  'typescript-service': [typescriptService, 'a repeated request is executed once'],
};

for (const [name, [example, promised]] of Object.entries(examples)) {
  whereRunnable(example, test.serial)(
    `each step of examples/${name} shows what it should`,
    async (t) => {
      // The sites of the edge are behind slow links: the example takes about three minutes.
      t.timeout(600_000);
      t.true((await stepsOf(example)).includes(promised));
    },
  );
}
