import type { Change, Entry, Key, Operation, Store } from './store.ts';

/** Returns the change with its key relative to the prefix. */
export function changeBelow(change: Change, prefix: Key): Change {
  if (change.type === 'delete') return { ...change, key: change.key.slice(prefix.length) };
  const { entry } = change;
  return { type: 'put', entry: { ...entry, key: entry.key.slice(prefix.length) } };
}

/**
 * Converts an operation whose keys are relative to a prefix to an operation on the whole store.
 * @param prefix - beginning of the keys in the whole store
 * @param streams - beginning of the stream names in the whole store
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
 * Returns a view of the store that contains only the rows below a prefix. Its keys are relative to
 * the prefix.
 * @param streams - prefix of the stream names in the whole store
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
    keys: (below) => mapped(store.keys(inside(below)), outside),
    write: (operations) => store.write(operations.map((it) => operationBelow(it, prefix, streams))),
    watch: (below, signal) =>
      mapped(store.watch(inside(below), signal), (change) => changeBelow(change, prefix)),
    stream: (name) => store.stream(`${streams}${name}`),
    // The underlying store stays open, because it also contains other rows.
    close: async () => {},
  };
}

async function* mapped<From, To>(
  items: AsyncIterable<From>,
  map: (item: From) => To,
): AsyncGenerator<To, void, void> {
  for await (const item of items) yield map(item);
}
