import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Entry, Key, Store } from '../../store/index.ts';

/**
 * Entries below a key, in their order. The store reads without a pause: here others get a turn of
 * the event loop after each page.
 * @param page entries that are read at once
 */
export async function* listInTurns(
  store: Pick<Store, 'list'>,
  prefix: Key,
  page: number,
): AsyncGenerator<Entry, void, void> {
  for (let after: Key | undefined; ; ) {
    let count = 0;
    const options = { limit: page, ...(after === undefined ? {} : { after }) };
    for await (const entry of store.list(prefix, options)) {
      count += 1;
      after = entry.key;
      yield entry;
    }
    if (count < page) return;
    await nextTurn();
  }
}
