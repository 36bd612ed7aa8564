/**
 * `npm run example -- NAME`: runs an example. The exit code is 0 if all steps had the expected
 * result, 1 if one had not, 2 if the example is unknown, and 69 if a requirement is missing.
 */

import { cluster } from './cluster/cluster.example.ts';
import { edge } from './edge/edge.example.ts';
import { type Example, printedStep } from './example.ts';
import { fromSaltMaster } from './from-salt-master/from-salt-master.example.ts';
import { gossip } from './gossip/gossip.example.ts';
import { guests } from './guests/guests.example.ts';
import { deployments } from './heat/deployments.example.ts';
import { group } from './heat/group.example.ts';
import { plugin } from './heat/plugin.example.ts';
import { waitCondition } from './heat/wait-condition.example.ts';
import { jenkins } from './jenkins/jenkins.example.ts';
import { pythonService } from './python-service/python-service.example.ts';
import { sahara } from './sahara/sahara.example.ts';
import { tenants } from './tenants/tenants.example.ts';
import { troveHeat } from './trove/heat.example.ts';
import { trove } from './trove/trove.example.ts';
import { typescriptService } from './typescript-service/typescript-service.example.ts';

const examples: Readonly<Record<string, Example>> = {
  cluster,
  edge,
  'from-salt-master': fromSaltMaster,
  gossip,
  guests,
  'heat-deployments': deployments,
  'heat-group': group,
  'heat-plugin': plugin,
  'heat-wait-condition': waitCondition,
  jenkins,
  'python-service': pythonService,
  sahara,
  tenants,
  trove,
  'trove-heat': troveHeat,
  'typescript-service': typescriptService,
};

const missing = 69;
const usage = 2;

async function main(name: string | undefined): Promise<number> {
  const example = name === undefined ? undefined : examples[name];
  if (example === undefined) {
    const list = Object.entries(examples).map(([key, it]) => `  ${key}  ${it.description}\n`);
    process.stderr.write(`npm run example -- NAME\n${list.join('')}`);
    return usage;
  }
  const absent = example.needs().filter(({ isThere }) => !isThere);
  for (const need of absent) process.stderr.write(`missing: ${need.name}: ${need.remedy}\n`);
  if (absent.length > 0) return missing;
  try {
    await example.run(printedStep);
    return 0;
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    return 1;
  }
}

process.exitCode = await main(process.argv[2]);
