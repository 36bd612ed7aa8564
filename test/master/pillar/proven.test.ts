/** The part of a pillar that does not depend on grains, on which rights may depend. */

import test, { type ExecutionContext } from 'ava';
import { createSilentLogger } from '#master';
import type { FactMap } from '#minion-protocol';
import { type ExtPillarLayer, withExtPillar } from '#salt/pillar/ext-pillar.ts';
import type { PillarAnswer, PillarSource } from '#salt/render/pillar-source.ts';
import { openTree } from '../../helpers/pillar.ts';

const tree = {
  'base/top.sls': "base:\n  '*': [a]\n  'tier:core':\n    - match: pillar\n    - core\n",
  'base/a.sls': 'seen: {{ pillar.tier }}\n',
  'base/core.sls': 'core: 1\n',
};

interface Opened {
  readonly ask: (tier: string) => Promise<PillarAnswer>;
  /** Returns the number of compiled pillars. */
  readonly made: () => number;
}

async function open(t: ExecutionContext, answer: ExtPillarLayer['answer']): Promise<Opened> {
  const { pillar } = await openTree(t, tree);
  const source: PillarSource = withExtPillar(pillar, {
    sources: [{ name: 'git', answer }],
    areFirst: true,
    ...{ strategy: 'smart', mergeLists: false, log: createSilentLogger() },
  });
  const request = { id: 'web1', saltenv: undefined, pillarenv: undefined };
  return {
    ask: (tier) => source.provide({ ...request, grains: { id: 'web1', tier } }),
    made: () => pillar.made,
  };
}

const core = { tier: 'core', seen: 'core', core: 1 };
const front = { tier: 'front', seen: 'front' };

test('files that read external pillar with ext_pillar_first do not make grains a right', async (t) => {
  const { ask } = await open(t, async ({ grains }) => ({
    pillar: { tier: String(grains.tier) },
    proven: { tier: 'front' },
  }));
  // The second answer is from the cache.
  for (let times = 0; times < 2; times += 1) {
    const { pillar, proven } = await ask('core');
    t.deepEqual([{ ...pillar }, { ...proven }], [core, front]);
  }
});

test('a cached pillar is used only with the same proven external pillar', async (t) => {
  let tier = 'front';
  const { ask } = await open(t, async () => ({ pillar: { tier: 'core' }, proven: { tier } }));
  t.deepEqual({ ...(await ask('')).proven }, front);
  tier = 'core';
  t.deepEqual({ ...(await ask('')).proven }, core);
});

test('external pillar that does not depend on grains is compiled once', async (t) => {
  const given: FactMap = { tier: 'core' };
  const { ask, made } = await open(t, async () => ({ pillar: given, proven: given }));
  const { pillar, proven } = await ask('front');
  t.deepEqual({ ...pillar }, core);
  t.is(proven, pillar);
  t.is(made(), 1);
});
