import { cleanKeyText, isNewMinionId } from '#minion-protocol';

/** A key and its id. */
interface NamedKey {
  readonly id: string;
  readonly pem: string;
}

/**
 * Unusual properties of a key. They are shown as warnings and do not prevent the minion from
 * signing in.
 */
export interface KeyMarks {
  /** Accepted ids that differ from this id only in case or in the Unicode encoding of letters. */
  readonly alike?: readonly string[];
  /** Other accepted ids that use the same key. */
  readonly sharedWith?: readonly string[];
  /** Present if the option `minion_ids` does not permit this id for new minions. */
  readonly isUnusual?: true;
}

/**
 * Returns a function that checks a key for warnings. The function returns accepted ids that look
 * like the key's id, accepted ids with the same key, and whether `minion_ids` forbids the id.
 */
export function keyMarks(accepted: readonly NamedKey[]): (key: NamedKey) => KeyMarks {
  const bySpelling = Map.groupBy(accepted, ({ id }) => foldedId(id));
  const byKey = Map.groupBy(accepted, ({ pem }) => cleanKeyText(pem));
  return ({ id, pem }) => {
    const alike = otherIds(bySpelling.get(foldedId(id)), id);
    const sharedWith = otherIds(byKey.get(cleanKeyText(pem)), id);
    return {
      ...(alike.length === 0 ? {} : { alike }),
      ...(sharedWith.length === 0 ? {} : { sharedWith }),
      ...(isNewMinionId(id) ? {} : { isUnusual: true }),
    };
  };
}

/** Normalises an id. Ids that a person would read as the same become equal. */
function foldedId(id: string): string {
  return id.normalize('NFKC').toLowerCase();
}

function otherIds(keys: readonly NamedKey[] = [], own: string): string[] {
  return keys.map(({ id }) => id).filter((id) => id !== own);
}
