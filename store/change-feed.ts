import { StoreError } from './errors.ts';
import { decodeKey } from './key.ts';
import { entryOf, unpackEntry } from './row-format.ts';
import type { Change } from './store.ts';

/** A change as it was written: what nobody watches is not read. */
export type KeyedChange =
  | { readonly type: 'put'; readonly key: Buffer; readonly row: Buffer }
  | { readonly type: 'delete'; readonly key: Buffer; readonly revision: number };

const maxBehind = 10_000;

/** Tells changes to those who watch, each with a bounded queue of its own. */
export class ChangeFeed {
  readonly #watchers = new Set<Watcher>();

  /** Changes under the encoded prefix from this call on, until the signal or {@link end}. */
  watch(prefix: Buffer, signal: AbortSignal): AsyncIterable<Change> {
    const watcher = new Watcher(prefix, () => this.#watchers.delete(watcher));
    if (signal.aborted) {
      watcher.abort();
      return watcher;
    }
    this.#watchers.add(watcher);
    watcher.follow(signal);
    return watcher;
  }

  /** Tells everybody whom it concerns. */
  publish(changes: readonly KeyedChange[]): void {
    for (const watcher of this.#watchers) {
      for (const change of changes) {
        if (watcher.concerns(change.key)) watcher.push(toChange(change));
      }
    }
  }

  /** Ends every watch behind its last change. */
  end(): void {
    for (const watcher of this.#watchers) watcher.end();
  }
}

/** A copy: the tables may hold the row itself. */
function toChange(written: KeyedChange): Change {
  const key = decodeKey(written.key);
  if (written.type === 'delete') return { type: 'delete', key, revision: written.revision };
  return { type: 'put', entry: entryOf(key, unpackEntry(Buffer.from(written.row))) };
}

type Waiting = (result: IteratorResult<Change>) => void;

class Watcher implements AsyncIterableIterator<Change> {
  readonly #prefix: Buffer;
  readonly #leave: () => void;
  #queue: Change[] = [];
  #waiting: Waiting[] = [];
  #state: 'open' | 'ended' | 'overrun' = 'open';
  #stopFollowing = (): void => {};

  constructor(prefix: Buffer, leave: () => void) {
    this.#prefix = prefix;
    this.#leave = leave;
  }

  follow(signal: AbortSignal): void {
    const onAbort = (): void => this.abort();
    signal.addEventListener('abort', onAbort, { once: true });
    this.#stopFollowing = () => signal.removeEventListener('abort', onAbort);
  }

  concerns(key: Buffer): boolean {
    return key.subarray(0, this.#prefix.length).equals(this.#prefix);
  }

  push(change: Change): void {
    if (this.#state !== 'open') return;
    const waiting = this.#waiting.shift();
    if (waiting !== undefined) waiting({ done: false, value: change });
    else if (this.#queue.length < maxBehind) this.#queue.push(change);
    else this.#finish('overrun');
  }

  end(): void {
    if (this.#state === 'open') this.#finish('ended', this.#queue);
  }

  abort(): void {
    this.#finish('ended');
  }

  next(): Promise<IteratorResult<Change>> {
    const change = this.#queue.shift();
    if (change !== undefined) return Promise.resolve({ done: false, value: change });
    if (this.#state === 'overrun') {
      this.#state = 'ended';
      return Promise.reject(
        new StoreError('ERR_WATCH_OVERRUN', `a watcher fell more than ${maxBehind} changes behind`),
      );
    }
    if (this.#state === 'ended') return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  return(): Promise<IteratorResult<Change>> {
    this.abort();
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #finish(state: 'ended' | 'overrun', rest: Change[] = []): void {
    this.#state = state;
    this.#queue = rest;
    this.#leave();
    this.#stopFollowing();
    for (const waiting of this.#waiting.splice(0)) waiting({ done: true, value: undefined });
  }
}
