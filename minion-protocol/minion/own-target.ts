/** Decides whether a publication targets this minion [WIRE 12.1]. */

import type { PublicationLoad } from '../loads.ts';
import { compileTarget, isTargetType, type TargetCandidate } from '../targeting/target.ts';

/**
 * Whether the publication's target matches the minion. An invalid target matches no minion. Regular
 * expressions with lookaround or back-references match no minion either, because their cost is
 * unbounded.
 */
export function isMinionTargeted(candidate: TargetCandidate, load: PublicationLoad): boolean {
  const { tgt, tgt_type: tgtType = 'glob', delimiter = ':' } = load;
  if (!isTargetType(tgtType) || delimiter === '') return false;
  try {
    return compileTarget({ tgtType, tgt, delimiter }).test(candidate) === 'yes';
  } catch (error) {
    if (error instanceof SyntaxError) return false;
    throw error;
  }
}
