/** Publishes the changes of a store to watchers of key prefixes. */

import { BoundedQueue } from '#runtime';
import { StoreError } from './errors.ts';
import { decodeKey, isBelow } from './key-bytes.ts';
import { storeLimits } from './limits.ts';
import { entryOf, unpackEntry } from './row-layout.ts';
import type { Change } from './store.ts';

/** A change in its encoded form. Changes without a watcher are never decoded. */
export type KeyedChange =
  | { readonly type: 'put'; readonly key: Buffer; readonly row: Buffer }
  | { readonly type: 'delete'; readonly key: Buffer; readonly revision: number };

const maxQueuedChanges = 10_000;

interface ChangeListener {
  readonly prefix: Buffer;
  readonly listener: (change: Change) => void;
}

export class ChangeFeed {
  readonly #listeners = new Set<ChangeListener>();
  readonly #queues = new Set<BoundedQueue<Change>>();

  /**
   * Iterates over the changes below a prefix until the signal is aborted or the reader falls too
   * far behind.
   */
  watch(prefix: Buffer, signal: AbortSignal): AsyncIterable<Change> {
    const queue = new BoundedQueue<Change>(storeLimits.queuedChanges, overrun, () => {
      this.#queues.delete(queue);
      this.#listeners.delete(entry);
      signal.removeEventListener('abort', abort);
    });
    const entry = { prefix, listener: (change: Change) => queue.push(change) };
    const abort = (): void => void queue.return();
    this.#queues.add(queue);
    this.#listeners.add(entry);
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
    return queue;
  }

  /**
   * Calls `listener` with each change below a prefix, in the same event loop turn as the change.
   */
  listen(prefix: Buffer, listener: (change: Change) => void, signal: AbortSignal): void {
    const entry = { prefix, listener };
    this.#listeners.add(entry);
    signal.addEventListener('abort', () => this.#listeners.delete(entry), { once: true });
  }

  publish(changes: readonly KeyedChange[]): void {
    for (const { prefix, listener } of this.#listeners) {
      for (const change of changes) {
        if (isBelow(prefix, change.key)) listener(toChange(change));
      }
    }
  }

  /** Ends each watcher as soon as it has read the changes that are already queued for it. */
  end(): void {
    for (const queue of this.#queues) queue.close();
  }
}

function overrun(): StoreError {
  return new StoreError(
    'ERR_WATCH_OVERRUN',
    `a watcher fell more than ${maxQueuedChanges} changes behind; watch again and list the keys`,
  );
}

/** Decodes a change. Each reader gets its own copy. */
function toChange(written: KeyedChange): Change {
  const key = decodeKey(written.key);
  if (written.type === 'delete') return { type: 'delete', key, revision: written.revision };
  return { type: 'put', entry: entryOf(key, unpackEntry(Buffer.from(written.row))) };
}
