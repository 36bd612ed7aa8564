import { compileGlob } from '../../minion-protocol/index.ts';
import { MasterError } from '../errors.ts';

/** A target as it is published. */
export type Target =
  | { readonly tgtType: 'glob'; readonly tgt: string }
  | { readonly tgtType: 'list'; readonly tgt: readonly string[] };

/** Who a target means, among the accepted keys [WIRE 12.2]. */
export interface ResolvedTarget {
  readonly minions: readonly string[];
  /** Names of a list target that have no accepted key. */
  readonly missing: readonly string[];
}

/**
 * Takes a target from a caller. Text for a list is split at commas without trimming, as Salt does.
 * @throws MasterError ERR_BAD_TGT
 */
export function parseTarget(tgt: string | readonly string[], tgtType: string): Target {
  if (tgtType === 'list') {
    return { tgtType, tgt: [...new Set(typeof tgt === 'string' ? tgt.split(',') : tgt)] };
  }
  if (tgtType !== 'glob') {
    const message = `tgt_type "${tgtType}" is not served; expected glob or list`;
    throw new MasterError('ERR_BAD_TGT', message);
  }
  if (typeof tgt !== 'string') {
    throw new MasterError('ERR_BAD_TGT', 'a target of type glob is text, not a list');
  }
  return { tgtType, tgt };
}

/** The accepted minions that the target means. */
export function resolveTarget(target: Target, accepted: readonly string[]): ResolvedTarget {
  if (target.tgtType === 'glob') {
    return { minions: accepted.filter(compileGlob(target.tgt)), missing: [] };
  }
  const known = new Set(accepted);
  return {
    minions: target.tgt.filter((name) => known.has(name)),
    missing: target.tgt.filter((name) => !known.has(name)),
  };
}
