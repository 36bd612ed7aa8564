import test from 'ava';
import {
  compileTarget,
  expandCompound,
  splitWords,
  type TargetExpression,
} from '../../../minion-protocol/index.ts';
import {
  candidateOf,
  minionNodegroups,
  targetCases,
  unknownMinion,
  vectorMinions,
} from '../../helpers/target-vectors.ts';

/** As a minion does that has nodegroups in its configuration. */
function expanded(target: TargetExpression): TargetExpression {
  if (target.tgtType !== 'compound') return target;
  return { ...target, tgt: expandCompound(splitWords(target.tgt), minionNodegroups) };
}

for (const { title, target, minionSide } of targetCases) {
  test(`the minions of the vectors run what is published to ${title}`, (t) => {
    const compiled = compileTarget(expanded(target));
    const verdicts = vectorMinions.map((minion) => {
      return [minion.id, compiled.test(candidateOf(minion)) === 'yes'] as const;
    });
    t.deepEqual(new Map(verdicts), minionSide);
  });
}

for (const { title, target, minions } of targetCases) {
  test(`the minions that may be meant by ${title} are those of a real master`, (t) => {
    const compiled = compileTarget(target);
    const unknown = { id: unknownMinion, facts: { grains: undefined, pillar: undefined } };
    const candidates = [...vectorMinions.map(candidateOf), unknown];
    const possible = candidates.filter((candidate) => compiled.isPossible(candidate));
    t.deepEqual(possible.map(({ id }) => id).sort(), minions);
  });
}
