import type { Logger } from 'pino';
import type { Change, Key, Store } from '#store';
import type { Cluster } from './cluster.ts';

export interface FollowedRows {
  readonly store: Pick<Store, 'list'>;
  /** `undefined`: nobody else writes them, and no change is told. */
  readonly cluster: Pick<Cluster, 'follow'> | undefined;
  readonly log: Logger;
}

/**
 * Calls the listener with each row below a prefix, and resolves. From then on it is called with each
 * change that any member of the cluster makes, in the order of the log: before the write that made it
 * resolves here.
 */
export async function followRows(
  { store, cluster, log }: FollowedRows,
  prefix: Key,
  listener: (change: Change) => void,
): Promise<void> {
  // What comes while the rows are read is told behind them.
  let waiting: Change[] | undefined = [];
  cluster?.follow(prefix, (change) => {
    if (waiting !== undefined) {
      waiting.push(change);
      return;
    }
    try {
      listener(change);
    } catch (error) {
      // What one module makes of a change must not keep the store from others.
      log.error({ err: error }, 'a change of another member was not followed');
    }
  });
  for await (const entry of store.list(prefix)) listener({ type: 'put', entry });
  for (const change of waiting) listener(change);
  waiting = undefined;
}
