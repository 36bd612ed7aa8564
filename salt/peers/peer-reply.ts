/** Limits the size of replies that contain the returns of a job which a minion requested. */

import type { JobReturn } from '#master';
import type { WireValue } from '#minion-protocol';
import { Budget, messageSizeOf } from '#runtime';
import { saltLimits } from '../limits.ts';

/** Estimated size of an entry of a reply, in bytes, without the return in this entry. */
const entryBytes = 64;

/**
 * Reply to which returns are added one by one. Until the reply is closed, the bytes of its returns
 * count towards the limit on replies to the minion.
 */
export interface PeerReply {
  /** Number of returns that did not fit into the reply. */
  readonly leftOut: number;
  /**
   * Adds a minion's return to the reply.
   * @returns the value to put into the reply: the returned value, or an error text if that value
   * exceeds the limit
   */
  fit(jid: string, result: JobReturn): WireValue;
  /** Releases the memory budget that the reply uses. */
  close(): void;
}

/**
 * Opens replies to minions that wait for the returns of other minions. The limit on bytes applies
 * to all open replies to one minion together.
 */
export class PeerReplies {
  readonly #bytes = new Budget(saltLimits.peerReplyBytes);

  /** Starts a reply to a minion. */
  open(minionId: string): PeerReply {
    const budget = this.#bytes;
    let held = 0;
    let leftOut = 0;
    return {
      get leftOut() {
        return leftOut;
      },
      fit: (jid, result) => {
        const size = entryBytes + messageSizeOf(result.return);
        if (budget.tryTake(minionId, size)) {
          held += size;
          return result.return;
        }
        leftOut += 1;
        return tooLarge(jid);
      },
      close: () => {
        budget.release(minionId, held);
        held = 0;
      },
    };
  }
}

function tooLarge(jid: string): string {
  return `ERROR: the replies to this minion are too large for this return; address fewer minions in one job, or read the return on the master with "salt-run jobs.lookup_jid ${jid}"`;
}
