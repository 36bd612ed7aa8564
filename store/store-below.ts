import type { Change, Entry, Key, Operation, Store } from './store.ts';

/** A change below a prefix, with the key that it has there. */
export function changeBelow(change: Change, prefix: Key): Change {
  if (change.type === 'delete') return { ...change, key: change.key.slice(prefix.length) };
  const { entry } = change;
  return { type: 'put', entry: { ...entry, key: entry.key.slice(prefix.length) } };
}

/**
 * A step for the whole store of one that is told with keys below a prefix.
 * @param streams - what the names of streams begin with in the whole store
 */
export function operationBelow(operation: Operation, prefix: Key, streams: string): Operation {
  switch (operation.op) {
    case 'delete-prefix':
      return { ...operation, prefix: [...prefix, ...operation.prefix] };
    case 'append':
      return { ...operation, stream: `${streams}${operation.stream}` };
    default:
      return { ...operation, key: [...prefix, ...operation.key] };
  }
}

/**
 * The rows of a store below a prefix, under keys that begin anew there.
 * @param streams - what the names of its streams begin with in the whole store
 */
export function storeBelow(store: Store, prefix: Key, streams: string): Store {
  const inside = (key: Key): Key => [...prefix, ...key];
  const outside = (key: Key): Key => key.slice(prefix.length);
  const entryOutside = (entry: Entry): Entry => ({ ...entry, key: outside(entry.key) });
  return {
    get: async (key) => {
      const entry = await store.get(inside(key));
      return entry && entryOutside(entry);
    },
    list: (below, options = {}) => {
      const { after } = options;
      const within = after === undefined ? options : { ...options, after: inside(after) };
      return mapped(store.list(inside(below), within), entryOutside);
    },
    write: (operations) => store.write(operations.map((it) => operationBelow(it, prefix, streams))),
    watch: (below, signal) =>
      mapped(store.watch(inside(below), signal), (change) => changeBelow(change, prefix)),
    stream: (name) => store.stream(`${streams}${name}`),
    // The rest of the store is not its own.
    close: async () => {},
  };
}

async function* mapped<From, To>(
  items: AsyncIterable<From>,
  map: (item: From) => To,
): AsyncGenerator<To, void, void> {
  for await (const item of items) yield map(item);
}
