import test from 'ava';
import { TargetResolver } from '../../../master/jobs/targets.ts';
import type { MinionFacts } from '../../../minion-protocol/index.ts';
import {
  candidateOf,
  targetCases,
  unknownMinion,
  vectorMinions,
} from '../../helpers/target-vectors.ts';

const facts = new Map<string, MinionFacts>(
  vectorMinions.map((minion) => [minion.id, candidateOf(minion).facts]),
);
const resolver = new TargetResolver({
  acceptedIds: () => [...facts.keys(), unknownMinion].sort(),
  isAccepted: () => true,
  factsOf: (id) => facts.get(id) ?? { grains: undefined, pillar: undefined },
  isDataCached: true,
  nodegroups: {},
});

for (const { title, target, minions, missing } of targetCases) {
  test(`a job for ${title} waits for whom a real master waits for`, async (t) => {
    const resolved = await resolver.resolve(target);
    t.deepEqual([...resolved.minions].sort(), minions);
    t.deepEqual([...resolved.missing].sort(), missing);
  });
}
