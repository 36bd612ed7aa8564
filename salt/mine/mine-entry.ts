/** Mine entries. An entry may have a target, which limits the minions that may read the entry. */

import type { TargetRequest } from '#master';
import { isWireMap, type WireValue } from '#minion-protocol';

/** A mine value, and the target that limits which minions may read it. */
interface MineEntry {
  readonly value: WireValue;
  /**
   * Target: only matching minions may read the value. `undefined`: every minion with access to the
   * mine may read the value.
   */
  readonly allowed: TargetRequest | undefined;
}

const mark = '__saltmine_acl__';
const noText: TargetRequest = { tgt: [], tgtType: 'list' };

/** Reads a value that a minion sent, with or without its `allow_tgt`. */
export function readMineEntry(sent: WireValue): MineEntry {
  if (!isWireMap(sent) || !(mark in sent)) return { value: sent, allowed: undefined };
  const { __data__: value = null, allow_tgt: tgt, allow_tgt_type: tgtType } = sent;
  if (tgt === undefined || tgt === null || tgt === '') return { value, allowed: undefined };
  return { value, allowed: toTarget(tgt, tgtType) };
}

/**
 * Converts `allow_tgt` to a target. An invalid target becomes one that matches no minion, because
 * the owner meant to restrict access.
 */
function toTarget(tgt: WireValue, tgtType: WireValue | undefined): TargetRequest {
  const isList = Array.isArray(tgt) && tgt.every((id) => typeof id === 'string');
  if (typeof tgt !== 'string' && !isList) return noText;
  if (tgtType === undefined || tgtType === null) return { tgt };
  return typeof tgtType === 'string' ? { tgt, tgtType: tgtType.toLowerCase() } : noText;
}
