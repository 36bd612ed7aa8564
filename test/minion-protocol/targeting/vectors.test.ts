import test from 'ava';
import {
  compileTarget,
  expandCompound,
  type PublicationLoad,
  splitTargetWords,
  type TargetExpression,
} from '../../../minion-protocol/index.ts';
import { isMinionTargeted } from '../../../minion-protocol/minion/minion.ts';
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
  return { ...target, tgt: expandCompound(splitTargetWords(target.tgt), minionNodegroups) };
}

function publicationTo({ tgtType, tgt }: TargetExpression): PublicationLoad {
  const recipients = typeof tgt === 'string' ? tgt : [...tgt];
  return {
    fun: 'test.ping',
    arg: [],
    jid: '20240102030405678901',
    tgt: recipients,
    tgt_type: tgtType,
  };
}

for (const { title, target, minionSide } of targetCases) {
  test(`the minions of the vectors run what is published to ${title}`, (t) => {
    const load = publicationTo(expanded(target));
    const verdicts = vectorMinions.map((minion) => {
      return [minion.id, isMinionTargeted(candidateOf(minion), load)] as const;
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

test('what the embedded minion cannot read, or could not bound, means nobody to it', (t) => {
  const [minion] = vectorMinions;
  if (minion === undefined) return t.fail();
  const isMeant = (tgtType: string, tgt: string, delimiter = ':'): boolean => {
    const load = { ...publicationTo({ tgtType: 'glob', tgt }), tgt_type: tgtType, delimiter };
    return isMinionTargeted(candidateOf(minion), load);
  };
  t.true(isMeant('glob', '*'));
  t.false(isMeant('range', '*'));
  t.false(isMeant('nodegroup', '*'));
  t.false(isMeant('pcre', '('));
  t.false(isMeant('pcre', '(?!x).*'));
  t.false(isMeant('grain', 'os:*', ''));
  t.true(isMeant('grain', 'os|*', '|'));
});
