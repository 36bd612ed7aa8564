import { type Key, type Store, storeBelow } from '#store';

/** Where the rows of one member are that the others take no notice of. */
export function ownPrefix(member: string): Key {
  return ['members', member];
}

/** What of the store of a cluster one member alone reads and writes, under its former keys. */
export function createOwnStore(store: Store, member: string): Store {
  return storeBelow(store, ownPrefix(member), `${member}/`);
}
