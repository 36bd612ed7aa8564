/** Minion keys that the members of a cluster share. They are rows of the store instead of files. */

import Type from 'typebox';
import {
  type Cluster,
  type ClusterMember,
  KeyError,
  type KeyFile,
  type KeyFiles,
  type KeyState,
  keyPlaces,
  pinKey,
  sessionKey,
} from '#master';
import { unpackLocal } from '#minion-protocol';
import {
  defineRow,
  type Entry,
  isConflict,
  type Key,
  type Operation,
  type RowOf,
  type Store,
  writeInParts,
} from '#store';
import { forEachFile } from './for-each-file.ts';

const keysPrefix: Key = ['keys'];
const deniedPrefix: Key = ['denied-keys'];

/** Schema of the rows `keys/<id>` and `denied-keys/<id>`. */
const keyRow = defineRow({
  name: 'key',
  schema: Type.Object({
    place: Type.Enum(['accepted', 'pending', 'rejected', 'denied']),
    pem: Type.String(),
    /** Time of the last change of state, in milliseconds since 1970. */
    since: Type.Number(),
  }),
  unversioned: unpackLocal,
});

type KeyRow = RowOf<typeof keyRow>;

/**
 * Minion keys in the store. A minion id has one row, and a second one for a denied key. A row is
 * changed only if it still has the revision that this member read last. If two members change a key
 * at the same time, one change is therefore rejected.
 */
class SharedKeys implements KeyFiles {
  readonly #store: Store;
  readonly #now: () => number;
  /** Revisions of rows when they were last read or written. */
  readonly #seen = new Map<string, number>();

  constructor(store: Store, now: () => number) {
    this.#store = store;
    this.#now = now;
  }

  async list(place: KeyState): Promise<string[]> {
    return [...(await this.readAll(place)).keys()];
  }

  async readAll(place: KeyState): Promise<Map<string, KeyFile>> {
    const found = new Map<string, KeyFile>();
    for await (const entry of this.#store.list(prefixOf(place))) {
      const row = keyRow.decode(entry);
      const id = entry.key.at(-1) ?? '';
      this.#seen.set(seenName(place, id), entry.revision);
      if (row.place === place) found.set(id, { pem: row.pem, since: row.since });
    }
    return found;
  }

  async read(place: KeyState, id: string): Promise<KeyFile | undefined> {
    const row = await this.#row(place, id);
    return row?.place === place ? { pem: row.pem, since: row.since } : undefined;
  }

  async write(place: KeyState, id: string, pem: string): Promise<void> {
    await this.#change(place, id, [this.#put(place, id, pem)]);
  }

  async move(from: KeyState, to: KeyState, id: string): Promise<void> {
    const file = await this.read(from, id);
    if (file === undefined) throw changedElsewhere(id);
    const gone: Operation[] =
      from === 'denied' ? [{ op: 'delete', key: [...deniedPrefix, id] }] : [];
    await this.#change(to, id, [this.#put(to, id, file.pem), ...gone]);
  }

  async remove(place: KeyState, id: string): Promise<void> {
    const row = await this.#row(place, id);
    if (row?.place !== place) return;
    const ifRevision = this.#seen.get(seenName(place, id)) ?? 0;
    await this.#change(place, id, [{ op: 'delete', key: rowKey(place, id), ifRevision }]);
  }

  #put(place: KeyState, id: string, pem: string): Operation {
    const value = keyRow.encode({ place, pem, since: this.#now() });
    const ifRevision = this.#seen.get(seenName(place, id)) ?? 0;
    return { op: 'put', key: rowKey(place, id), value, ifRevision };
  }

  async #row(place: KeyState, id: string): Promise<KeyRow | undefined> {
    const entry = await this.#store.get(rowKey(place, id));
    this.#seen.set(seenName(place, id), entry?.revision ?? 0);
    return entry && keyRow.decode(entry);
  }

  /**
   * Writes a change of a key. If an accepted key is revoked, the same write deletes the minion's
   * session and its pinned protocol version.
   */
  async #change(place: KeyState, id: string, operations: readonly Operation[]): Promise<void> {
    const ended: Operation[] =
      place === 'denied'
        ? []
        : [
            { op: 'delete', key: sessionKey(id) },
            { op: 'delete', key: pinKey(id) },
          ];
    try {
      const isAccepted = (await this.#store.get(rowKey(place, id)).then(placeOf)) === 'accepted';
      const revision = await this.#store.write([...operations, ...(isAccepted ? ended : [])]);
      const isThere = operations.some((it) => it.op === 'put');
      this.#seen.set(seenName(place, id), isThere ? revision : 0);
    } catch (error) {
      if (isConflict(error)) throw changedElsewhere(id);
      throw error;
    }
  }
}

function placeOf(entry: Entry | undefined): KeyState | undefined {
  return entry && keyRow.decode(entry).place;
}

function prefixOf(place: KeyState): Key {
  return place === 'denied' ? deniedPrefix : keysPrefix;
}

function rowKey(place: KeyState, id: string): Key {
  return [...prefixOf(place), id];
}

function seenName(place: KeyState, id: string): string {
  return `${place === 'denied' ? 'denied' : 'key'} ${id}`;
}

function changedElsewhere(id: string): KeyError {
  return new KeyError(
    'ERR_KEY_STATE',
    `another member of the cluster has changed the key of ${JSON.stringify(id)}; list the keys and try again`,
  );
}

/** Opens the minion keys of a cluster. */
export function sharedKeyFiles(
  store: Store,
  cluster: Cluster,
  now: () => number,
): ReturnType<ClusterMember['keys']['minionKeys']> {
  return {
    files: new SharedKeys(store, now),
    watch: (onDirty) => {
      let isEnded = false;
      for (const prefix of [keysPrefix, deniedPrefix]) {
        cluster.follow(prefix, (change) => {
          const key = change.type === 'put' ? change.entry.key : change.key;
          if (!isEnded) onDirty([key.at(-1) ?? '']);
        });
      }
      return () => {
        isEnded = true;
      };
    },
  };
}

/**
 * Copies the keys of a PKI directory to the store. Keys that the store already contains are not
 * replaced. Returns the number of copied keys.
 */
export async function shareMinionKeys(dir: KeyFiles, store: Store): Promise<number> {
  const operations: Operation[] = [];
  // If a minion has several key files, the state that Salt checks first is used [WIRE 6.2].
  const taken = new Set<string>();
  for (const place of ['rejected', 'accepted', 'pending', 'denied'] as const) {
    for (const [id, { pem, since }] of await dir.readAll(place)) {
      if (place !== 'denied' && taken.has(id)) continue;
      taken.add(id);
      const key = rowKey(place, id);
      if ((await store.get(key)) !== undefined) continue;
      operations.push({ op: 'put', key, value: keyRow.encode({ place, pem, since }) });
    }
  }
  await writeInParts(store, operations);
  return operations.length;
}

/** Writes the keys of a cluster to a PKI directory, and removes all other keys from it. */
export async function writeMinionKeys(store: Pick<Store, 'list'>, dir: KeyFiles): Promise<void> {
  for (const place of keyPlaces) {
    const own = new Map<string, string>();
    for await (const entry of store.list(prefixOf(place))) {
      const row = keyRow.decode(entry);
      if (row.place === place) own.set(entry.key.at(-1) ?? '', row.pem);
    }
    const files = await dir.readAll(place);
    const missing = [...own].filter(([id, pem]) => files.get(id)?.pem !== pem);
    await forEachFile(missing, ([id, pem]) => dir.write(place, id, pem));
    for (const id of files.keys()) if (!own.has(id)) await dir.remove(place, id);
  }
}
