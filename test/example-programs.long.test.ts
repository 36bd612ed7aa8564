/** Runs `npm run example -- NAME` for the examples that need neither a salt-minion nor a cloud. */
import test from 'ava';
import type { Example } from '../examples/example.ts';
import { fromSaltMaster } from '../examples/from-salt-master/from-salt-master.example.ts';
import { jenkins } from '../examples/jenkins/jenkins.example.ts';
import { pythonService } from '../examples/python-service/python-service.example.ts';
import { tenants } from '../examples/tenants/tenants.example.ts';
import { typescriptService } from '../examples/typescript-service/typescript-service.example.ts';
import { stepsOf, whereRunnable } from './helpers/examples.ts';

/** Examples, each with the step that its description promises. */
const examples: Readonly<Record<string, readonly [Example, string]>> = {
  'from-salt-master': [
    fromSaltMaster,
    'stopped, the directory of keys is what it was: salt-master can start on it again',
  ],
  jenkins: [
    jenkins,
    'the reaction may run Puppet, and nothing else; the policy says by which rule',
  ],
  'python-service': [pythonService, 'a plan restarts one after the other'],
  tenants: [tenants, 'blue is closed, and red goes on'],
  'typescript-service': [typescriptService, 'a request is done once, however often it is sent'],
};

for (const [name, [example, promised]] of Object.entries(examples)) {
  whereRunnable(example, test.serial)(
    `each step of examples/${name} shows what it should`,
    async (t) => {
      t.timeout(120_000);
      t.true((await stepsOf(example)).includes(promised));
    },
  );
}
