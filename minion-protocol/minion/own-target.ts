/** Whether a publication is meant for this minion [WIRE 12.1]. */

import type { PublicationLoad } from '../loads.ts';
import { compileTarget, isTargetType, type TargetCandidate } from '../targeting/target.ts';

/**
 * Asks a publication's target. What cannot be read, and regular expressions with lookaround or
 * back-references, mean nobody here: nothing bounds what those would cost.
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
