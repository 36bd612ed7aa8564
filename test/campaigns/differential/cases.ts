/** Cases of the differential campaign, each from the seed and its number. */

import { Random } from '../random.ts';
import { pillarTree } from './pillars.ts';
import { target, targetMinions, targetNodegroups } from './targets.ts';
import { template, templateFiles, templateGrains } from './templates.ts';
import { yamlDocument } from './yaml-documents.ts';

type Files = Readonly<Record<string, string>>;
type Facts = Readonly<Record<string, unknown>>;

/** A question that Salt and this master answer. */
export type Case =
  | { readonly kind: 'yaml'; readonly text: string }
  | {
      readonly kind: 'template';
      readonly text: string;
      readonly files: Files;
      readonly grains: Facts;
    }
  | {
      readonly kind: 'pillar';
      readonly files: Files;
      readonly roots: readonly string[];
      readonly options: Facts;
      readonly grains: Facts;
      readonly saltenv: string | null;
      readonly pillarenv: string | null;
    }
  | {
      readonly kind: 'target';
      readonly tgt: string;
      readonly tgt_type: string;
      readonly minions: Facts;
      readonly nodegroups: Readonly<Record<string, string | readonly string[]>>;
    };

/** Makes one case. A pillar takes Salt some 50 ms, all else 1 ms. */
export function makeCase(seed: number, number: number): Case {
  const random = new Random(seed, number);
  const kind = random.below(20);
  if (kind < 8) return { kind: 'yaml', text: yamlDocument(random) };
  if (kind < 15) {
    const shared = { files: templateFiles, grains: templateGrains };
    return { kind: 'template', text: template(random), ...shared };
  }
  if (kind < 19) {
    const { tgt, tgtType } = target(random);
    const shared = { minions: targetMinions, nodegroups: targetNodegroups };
    return { kind: 'target', tgt, tgt_type: tgtType, ...shared };
  }
  return { kind: 'pillar', ...pillarTree(random), grains: templateGrains };
}
