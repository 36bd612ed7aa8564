/** Entries of a mine, with the targets that may read them. */

import type { TargetRequest } from '#master';
import { isWireMap, type WireValue } from '#minion-protocol';

/** A value, and who may read it. */
interface MineEntry {
  readonly value: WireValue;
  /** Only the minions that this means. `undefined`: whoever may read the mine at all. */
  readonly allowed: TargetRequest | undefined;
}

const mark = '__saltmine_acl__';
const noText: TargetRequest = { tgt: [], tgtType: 'list' };

/** Takes a value apart: plain, or wrapped with its readers. */
export function readMineEntry(sent: WireValue): MineEntry {
  if (!isWireMap(sent) || !(mark in sent)) return { value: sent, allowed: undefined };
  const { __data__: value = null, allow_tgt: tgt, allow_tgt_type: tgtType } = sent;
  if (tgt === undefined || tgt === null || tgt === '') return { value, allowed: undefined };
  return { value, allowed: toTarget(tgt, tgtType) };
}

/** What is no target allows nobody: its owner meant to restrict. */
function toTarget(tgt: WireValue, tgtType: WireValue | undefined): TargetRequest {
  const isList = Array.isArray(tgt) && tgt.every((id) => typeof id === 'string');
  if (typeof tgt !== 'string' && !isList) return noText;
  if (tgtType === undefined || tgtType === null) return { tgt };
  return typeof tgtType === 'string' ? { tgt, tgtType: tgtType.toLowerCase() } : noText;
}
