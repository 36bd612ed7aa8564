/** `salt['match.…']` [salt/modules/match.py]. */

import { MasterError, parseTarget } from '#master';
import { compileTarget, factsOf, type Nodegroups } from '#minion-protocol';
import type { PlainData, SaltFunction } from '#template';
import type { TracedGrains } from './grains.ts';

/** Whom they are about. */
export interface MatchWorld {
  readonly id: string;
  /** What the minion says of itself; each look is noted. */
  readonly grains: TracedGrains;
  readonly nodegroups: Nodegroups;
}

const kinds = ['compound', 'glob', 'grain', 'grain_pcre', 'ipcidr', 'list', 'pcre'] as const;

export function matchFunctions(world: MatchWorld): Readonly<Record<string, SaltFunction>> {
  return Object.fromEntries(
    kinds.map((kind) => {
      const matches: SaltFunction = ([tgt, second], { tgt: named, minion_id: id = second }) => {
        const isAbout = kind === 'grain' || kind === 'grain_pcre' ? undefined : id;
        return isMeantByTarget(world, kind, tgt ?? named, isAbout);
      };
      return [`match.${kind}`, matches];
    }),
  );
}

/** As in Salt, what cannot be read means nobody. */
function isMeantByTarget(
  { id, grains, nodegroups }: MatchWorld,
  tgtType: string,
  tgt: PlainData | undefined,
  other: PlainData | undefined,
): boolean {
  const asked = Array.isArray(tgt) ? tgt.map(String) : String(tgt ?? '');
  const facts = { grains, pillar: factsOf({}) };
  const candidate = { id: typeof other === 'string' ? other : id, facts };
  try {
    return (
      compileTarget(parseTarget({ tgt: asked, tgtType }, nodegroups)).test(candidate) === 'yes'
    );
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof MasterError) return false;
    throw error;
  }
}
