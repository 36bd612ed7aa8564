/** Warnings about minions' keys. */

import { cleanKeyText, isNewMinionId } from '#minion-protocol';

/** A key under an id. */
interface NamedKey {
  readonly id: string;
  readonly pem: string;
}

/** What is unusual about a key; nothing of it keeps its minion out. */
export interface KeyMarks {
  /** Accepted ids that differ from this one in case only, or in how letters are written. */
  readonly alike?: readonly string[];
  /** Other accepted ids that have the same key. */
  readonly sharedWith?: readonly string[];
  /** No new minion may have such an id; see `minion_ids`. */
  readonly isUnusual?: true;
}

/** Tells the marks of a key beside these accepted ones. */
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

/** Equal for ids that a person would read as one. */
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
