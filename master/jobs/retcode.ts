import { isWireMap, type WireValue } from '../../minion-protocol/index.ts';

/**
 * Whether a minion's `retcode` says that it failed: not 0, or, where several functions ran, a map
 * with one that is not [salt cli/salt.py _get_retcode].
 */
export function isFailureCode(retcode: WireValue): boolean {
  if (retcode instanceof Map) return [...retcode.values()].some(isFailureCode);
  if (isWireMap(retcode)) return Object.values(retcode).some(isFailureCode);
  return retcode !== 0 && retcode !== false && retcode !== null;
}
