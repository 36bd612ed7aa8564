/** Limits of the size of targets. They are checked before a target is split into its parts. */

import { WorkLimitExceeded, type WorkMeter } from '#runtime';

/** Maximum number of ids in a list. */
const maxIds = 50_000;

/** Maximum length of a list of ids, in characters. */
const maxListLength = 4_000_000;

/** Maximum length of a target that is not a list of ids, in characters. */
const maxTargetLength = 262_144;

/**
 * Default of the parameter `meter` of {@link requireTargetSize}, which calls `refuse` for a target
 * that is too large. This `refuse` throws a WorkLimitExceeded.
 */
const unlimited: Pick<WorkMeter, 'refuse'> = {
  refuse: (part, limit, unit) => {
    throw new WorkLimitExceeded(part, limit, unit);
  },
};

/**
 * Checks the size of a target. Takes little time, regardless of the size.
 * @param meter - rejects a target that is too large; default: throws a WorkLimitExceeded
 * @throws WorkLimitExceeded
 */
export function requireTargetSize(
  tgt: string | readonly string[],
  tgtType: string,
  meter: Pick<WorkMeter, 'refuse'> = unlimited,
): void {
  const isList = tgtType === 'list';
  const [part, maxLength] = isList
    ? ['a list of ids', maxListLength]
    : ['a target', maxTargetLength];
  if (typeof tgt === 'string') {
    if (tgt.length > maxLength) meter.refuse(part, maxLength, 'characters');
    if (isList && hasMoreParts(tgt)) meter.refuse(part, maxIds, 'ids');
    return;
  }
  if (tgt.length > maxIds) meter.refuse(part, maxIds, isList ? 'ids' : 'words');
  const length = tgt.reduce((sum, word) => sum + word.length, 0);
  if (length > maxLength) meter.refuse(part, maxLength, 'characters');
}

/** Whether a text has more than {@link maxIds} parts between commas. */
function hasMoreParts(list: string): boolean {
  let commas = 0;
  for (let at = list.indexOf(','); at !== -1; at = list.indexOf(',', at + 1)) {
    commas += 1;
    if (commas >= maxIds) return true;
  }
  return false;
}
