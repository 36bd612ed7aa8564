/** APIs of handles and the outbox, for programs and the local socket, with audit records. */

import type { RegistrationOwner, RegistrationsApi } from '../registrations.ts';
import type { HandleRegistration } from './handle-registration.ts';
import type { HandleInfo } from './handles.ts';
import type { OutboxEntry } from './outbox-entry.ts';

/**
 * API of handles, to which minions send signals.
 * - `add` also delivers the signals that arrived before the handle was registered. If the endpoint
 *   of the handle is not listed (`isListed` is false), its signals become dead letters.
 * - `list` includes expired handles for a day. A new handle for groups removes the expired handles
 *   for groups with the same alias and owner.
 * - After `remove`, pending signals of the handle become dead letters.
 * - If several owners or stacks use the alias, the error is ERR_HANDLE_AMBIGUOUS.
 */
export type HandlesApi = RegistrationsApi<
  HandleRegistration,
  HandleInfo,
  HandleInfo,
  HandleOwnerAndStack
>;

/** Owner and stack, which select one of several handles with the same alias. */
interface HandleOwnerAndStack extends RegistrationOwner {
  /**
   * Stack of the handle. Default: any stack. If several stacks have a handle with the alias, the
   * error is ERR_HANDLE_AMBIGUOUS.
   */
  readonly stack?: string;
}

/**
 * Selection of outbox entries: one entry, the entries with an alias, the entries for the handles of
 * an owner, or all entries.
 */
export interface OutboxSelection extends RegistrationOwner {
  readonly id?: string;
  readonly alias?: string;
}

/** API of the outbox: its pending signals and dead letters. */
export interface OutboxApi {
  /**
   * Returns the dead letters and then the pending signals, the oldest first. Omits the entries after
   * the first `limit` ones. Default of `limit`: 1,000.
   */
  list(
    selection?: OutboxSelection & {
      readonly isDead?: boolean;
      /**
       * Whether to return the signals that were delivered in the last 24 hours, the latest first,
       * instead of dead letters and pending signals.
       */
      readonly isDelivered?: boolean;
      readonly limit?: number;
    },
  ): Promise<readonly OutboxEntry[]>;
  /**
   * Moves dead letters to the end of the queues of their handles. If a signal expired before a
   * handle was registered for it, it goes to the handle that is registered now.
   * @returns the entries that are retried
   * @throws BridgeError ERR_SIGNAL_UNKNOWN, ERR_SIGNAL_QUOTA, ERR_HANDLE_UNKNOWN if the handle was
   * removed
   */
  retry(selection: OutboxSelection): Promise<readonly OutboxEntry[]>;
  /**
   * Removes entries, even of pending signals, without delivering them.
   * @returns the removed entries
   * @throws BridgeError ERR_SIGNAL_UNKNOWN
   */
  drop(selection: OutboxSelection): Promise<readonly OutboxEntry[]>;
}

export interface SignalsApi {
  readonly handles: HandlesApi;
  readonly outbox: OutboxApi;
}
