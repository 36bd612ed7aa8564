/** Cases of the differential campaign, each from the seed and its number. */

import { Random } from '../random.ts';
import { type PillarQuestion, pillarTree } from './pillars.ts';
import { type TargetQuestion, target, targetMinions, targetNodegroups } from './targets.ts';
import { template, templateFiles, templateGrains } from './templates.ts';
import { yamlDocument } from './yaml-documents.ts';

/** A case without what all cases of its kind share. */
export type Question =
  | { readonly kind: 'yaml'; readonly text: string }
  | { readonly kind: 'template'; readonly text: string }
  | ({ readonly kind: 'pillar' } & PillarQuestion)
  | ({ readonly kind: 'target' } & TargetQuestion);

/** What all cases share: files that templates import, grains, minions and nodegroups. */
export const surroundings = {
  files: templateFiles,
  grains: templateGrains,
  minions: targetMinions,
  nodegroups: targetNodegroups,
} as const;

/** Makes one case. A pillar takes Salt some 50 ms, all else 1 ms. */
export function makeCase(seed: number, number: number): Question {
  const random = new Random(seed, number);
  const kind = random.below(20);
  if (kind < 8) return { kind: 'yaml', text: yamlDocument(random) };
  if (kind < 15) return { kind: 'template', text: template(random) };
  if (kind < 19) return { kind: 'target', ...target(random) };
  return { kind: 'pillar', ...pillarTree(random) };
}
