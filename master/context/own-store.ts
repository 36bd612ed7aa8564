import type { Change, Entry, Key, Operation, Store } from '../../store/index.ts';

/** Where the rows of one member are that the others take no notice of. */
export function ownPrefix(member: string): Key {
  return ['members', member];
}

/** What of the store of a cluster one member alone reads and writes, under its former keys. */
export function createOwnStore(store: Store, member: string): Store {
  const root = ownPrefix(member);
  const inside = (key: Key): Key => [...root, ...key];
  const outside = (key: Key): Key => key.slice(root.length);
  const entryOutside = (entry: Entry): Entry => ({ ...entry, key: outside(entry.key) });
  return {
    get: async (key) => {
      const entry = await store.get(inside(key));
      return entry && entryOutside(entry);
    },
    list: (prefix, options = {}) => {
      const { after } = options;
      const within = after === undefined ? options : { ...options, after: inside(after) };
      return mapped(store.list(inside(prefix), within), entryOutside);
    },
    write: (operations) => store.write(operations.map((one) => placed(one, inside, member))),
    watch: (prefix, signal) =>
      mapped(
        store.watch(inside(prefix), signal),
        (change): Change =>
          change.type === 'put'
            ? { type: 'put', entry: entryOutside(change.entry) }
            : { ...change, key: outside(change.key) },
      ),
    stream: (name) => store.stream(streamOf(name, member)),
    close: async () => {},
  };
}

function streamOf(name: string, member: string): string {
  return `${member}/${name}`;
}

function placed(operation: Operation, inside: (key: Key) => Key, member: string): Operation {
  switch (operation.op) {
    case 'delete-prefix':
      return { ...operation, prefix: inside(operation.prefix) };
    case 'append':
      return { ...operation, stream: streamOf(operation.stream, member) };
    default:
      return { ...operation, key: inside(operation.key) };
  }
}

async function* mapped<From, To>(
  items: AsyncIterable<From>,
  map: (item: From) => To,
): AsyncGenerator<To, void, void> {
  for await (const item of items) yield map(item);
}
