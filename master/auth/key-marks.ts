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
  const bySpelling = idsBy(accepted, ({ id }) => foldedId(id));
  const byKey = idsBy(accepted, ({ pem }) => cleanKeyText(pem));
  return ({ id, pem }) => {
    const alike = (bySpelling.get(foldedId(id)) ?? []).filter((other) => other !== id);
    const sharedWith = (byKey.get(cleanKeyText(pem)) ?? []).filter((other) => other !== id);
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

function idsBy(keys: readonly NamedKey[], of: (key: NamedKey) => string): Map<string, string[]> {
  const ids = new Map<string, string[]>();
  for (const key of keys) {
    const name = of(key);
    const known = ids.get(name);
    if (known === undefined) ids.set(name, [key.id]);
    else known.push(key.id);
  }
  return ids;
}
