import type { Logger } from 'pino';
import type { Change, Key, Store } from '#store';
import type { Cluster } from './cluster.ts';

export interface FollowedRows {
  readonly store: Pick<Store, 'list'>;
  /**
   * Cluster that reports the changes of its members. If it is `undefined`, the master has no other
   * members, and no changes are reported.
   */
  readonly cluster: Pick<Cluster, 'follow'> | undefined;
  readonly log: Logger;
}

/**
 * Calls the listener with each row under a prefix, then resolves. From then on it calls the
 * listener with each change that any member of the cluster makes, in the order of the log. A write
 * of this member resolves only after the listener has received the change.
 */
export async function followRows(
  { store, cluster, log }: FollowedRows,
  prefix: Key,
  listener: (change: Change) => void,
): Promise<void> {
  // Changes that arrive while the rows are being read are passed to the listener afterwards.
  let waiting: Change[] | undefined = [];
  cluster?.follow(prefix, (change) => {
    if (waiting !== undefined) {
      waiting.push(change);
      return;
    }
    try {
      listener(change);
    } catch (error) {
      // An error in one module must not prevent other modules from receiving the change.
      log.error(
        { err: error },
        'internal error while a module of the master processed a change of the store',
      );
    }
  });
  for await (const entry of store.list(prefix)) listener({ type: 'put', entry });
  for (const change of waiting) listener(change);
  waiting = undefined;
}
