import { cleanKeyText, isNewMinionId } from '#minion-protocol';
import type { WorkBudget } from '#runtime';
import type { KeyInfo } from '../api/index.ts';

/** Estimated work for adding one key to a group, in steps of a {@link WorkBudget}. */
const stepsOfKey = 250;

/** A key and its id. */
interface NamedKey {
  readonly id: string;
  readonly pem: string;
}

/**
 * Unusual properties of a key. They are shown as warnings and do not prevent the minion from
 * signing in.
 */
export type KeyMarks = Pick<
  KeyInfo,
  'alike' | 'alikeCount' | 'isUnusual' | 'sharedWith' | 'sharedWithCount'
>;

/** Returns the unusual properties of a key. */
export type MarksOfKey = (key: NamedKey) => KeyMarks;

/**
 * Returns a function that checks a key for warnings. The function returns accepted ids that look
 * like the key's id, accepted ids with the same key, and whether `minion_ids` forbids the id.
 * @param budget - work budget of the request. The keys are compared in slices, between which other
 * work runs
 */
export async function keyMarks(
  accepted: readonly NamedKey[],
  budget: WorkBudget,
): Promise<MarksOfKey> {
  const bySpelling = await idsBy(accepted, ({ id }) => foldedId(id), budget);
  const byKey = await idsBy(accepted, ({ pem }) => cleanKeyText(pem), budget);
  return ({ id, pem }) => {
    const alike = otherIds(bySpelling.get(foldedId(id)), id);
    const shared = otherIds(byKey.get(cleanKeyText(pem)), id);
    return {
      ...(alike.count === 0 ? {} : { alike: alike.named, alikeCount: alike.count }),
      ...(shared.count === 0 ? {} : { sharedWith: shared.named, sharedWithCount: shared.count }),
      ...(isNewMinionId(id) ? {} : { isUnusual: true }),
    };
  };
}

/** Normalises an id. Ids that a person would read as the same become equal. */
function foldedId(id: string): string {
  return id.normalize('NFKC').toLowerCase();
}

type Ids = ReadonlySet<string>;

/** Groups the ids of keys. */
async function idsBy(
  keys: readonly NamedKey[],
  groupOf: (key: NamedKey) => string,
  budget: WorkBudget,
): Promise<ReadonlyMap<string, Ids>> {
  const groups = new Map<string, Set<string>>();
  for (const key of keys) {
    const group = groupOf(key);
    const ids = groups.get(group);
    if (ids === undefined) groups.set(group, new Set([key.id]));
    else ids.add(key.id);
    await budget.giveWayAfter(stepsOfKey);
  }
  return groups;
}

/**
 * Maximum number of ids that the marks of one key name. With all ids, a list of the keys of cloned
 * machines would grow with the square of their number.
 */
const maxNamedIds = 20;

/** Returns the number of ids in a group without one of them, and the first of these ids. */
function otherIds(
  ids: Ids = new Set(),
  own: string,
): { readonly named: readonly string[]; readonly count: number } {
  const named: string[] = [];
  for (const id of ids) {
    if (named.length === maxNamedIds) break;
    if (id !== own) named.push(id);
  }
  return { named, count: ids.has(own) ? ids.size - 1 : ids.size };
}
