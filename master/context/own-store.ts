import { type Key, type Store, storeBelow } from '#store';

/** Returns the key prefix of the rows that only one member of a cluster uses. */
export function ownPrefix(member: string): Key {
  return ['members', member];
}

/**
 * Returns the part of a cluster's store that only one member uses. Within this part, rows have the
 * same keys as in the store of a master without a cluster.
 */
export function createOwnStore(store: Store, member: string): Store {
  return storeBelow(store, ownPrefix(member), `${member}/`);
}
