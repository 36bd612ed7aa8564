/** Imports the mines of a salt-master [salt/cache/localfs.py]. */

import path from 'node:path';
import { readBounded, type SaltDataCache } from '#master';
import { isWireMap, unpackLocal } from '#minion-protocol';
import type { Key, Store } from '#store';
import type { MineStore } from './mine-store.ts';

/**
 * Store key of the marker that the import is complete. A second import would restore entries that
 * minions have deleted in the meantime.
 */
const doneKey: Key = ['mine-taken-over'];

/**
 * Imports mines from `<cachedir>/minions/<id>/mine.p`, once. Without the import, the mines would be
 * empty until minions send their values again, by default within an hour (`mine_interval`). Logs a
 * warning for each file that cannot be read.
 * @returns the number of imported mines
 */
export async function takeOverMines(
  mine: MineStore,
  store: Store,
  cache: SaltDataCache,
): Promise<number> {
  if ((await store.get(doneKey)) !== undefined) return 0;
  let count = 0;
  for (const id of cache.ids) if (await takeOver(mine, id, cache)) count += 1;
  await store.write([{ op: 'put', key: doneKey, value: new Uint8Array(0) }]);
  return count;
}

async function takeOver(mine: MineStore, id: string, cache: SaltDataCache): Promise<boolean> {
  const file = path.join(cache.cachedir, 'minions', id, 'mine.p');
  try {
    const bytes = await readBounded(file, cache.maxBytes);
    if (bytes === undefined) return false;
    const data = unpackLocal(bytes);
    if (!isWireMap(data)) throw new TypeError('not a map');
    await mine.update(id, { data, clear: false }, undefined);
    return true;
  } catch (error) {
    cache.log.warn(
      { minion: id, file, err: error },
      'cannot import the mine data of a minion from the cache of a salt-master',
    );
    return false;
  }
}
