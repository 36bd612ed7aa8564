import { type Key, type Store, storeBelow } from '#store';

/** Returns the key prefix of the rows that only one member uses. */
export function ownPrefix(member: string): Key {
  return ['members', member];
}

/**
 * Returns the part of a cluster's store that one member uses alone, under the keys of a single
 * master.
 */
export function createOwnStore(store: Store, member: string): Store {
  return storeBelow(store, ownPrefix(member), `${member}/`);
}
