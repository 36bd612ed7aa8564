/** Generates the cases of the differential campaign from the seed and the number of the case. */

import { Random } from '../random.ts';
import { type OrchestrationQuestion, orchestration } from './orchestrations.ts';
import { type PillarQuestion, pillarTree } from './pillars.ts';
import { type TargetQuestion, target, targetMinions, targetNodegroups } from './targets.ts';
import { template, templateFiles, templateGrains } from './templates.ts';
import { yamlDocument } from './yaml-documents.ts';

/** The part of a case that differs between cases of the same kind. */
export type Question =
  | { readonly kind: 'yaml'; readonly text: string }
  | { readonly kind: 'template'; readonly text: string }
  | ({ readonly kind: 'pillar' } & PillarQuestion)
  | ({ readonly kind: 'target' } & TargetQuestion)
  | ({ readonly kind: 'orchestration' } & OrchestrationQuestion);

/** Data that all cases share: files that templates import, grains, minions and nodegroups. */
export const surroundings = {
  files: templateFiles,
  grains: templateGrains,
  minions: targetMinions,
  nodegroups: targetNodegroups,
} as const;

/** Generates one case. Salt needs about 50 ms for a pillar or an orchestration, and 1 ms for other cases. */
export function makeCase(seed: number, number: number): Question {
  const random = new Random(seed, number);
  const kind = random.below(21);
  if (kind === 20) return { kind: 'orchestration', ...orchestration(random, number) };
  if (kind < 8) return { kind: 'yaml', text: yamlDocument(random) };
  if (kind < 15) return { kind: 'template', text: template(random) };
  if (kind < 19) return { kind: 'target', ...target(random) };
  return { kind: 'pillar', ...pillarTree(random) };
}
