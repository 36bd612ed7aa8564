/** APIs of handles and the outbox, for programs and the local socket, with audit records. */

import type { RegistrationOwner, RegistrationsApi } from '../registrations.ts';
import type { HandleInfo, HandleRegistration } from './handles.ts';
import type { OutboxEntry } from './outbox-entry.ts';

/**
 * API of the handles that minions may signal. `add` also delivers the signals that are held for
 * the handle. If the handle's endpoint is not listed (`isListed` is false), its signals become
 * dead letters. `list` includes handles for one day after they expire. After `remove`, pending
 * signals of the handle become dead letters. If several owners or stacks have the alias, the error
 * is ERR_HANDLE_AMBIGUOUS.
 */
export type HandlesApi = RegistrationsApi<
  HandleRegistration,
  HandleInfo,
  HandleInfo,
  HandleOwnerAndStack
>;

/** Selector of one of several handles with the same alias. */
interface HandleOwnerAndStack extends RegistrationOwner {
  /** Stack of the handle. Default: any. If several match, the error is ERR_HANDLE_AMBIGUOUS. */
  readonly stack?: string;
}

/**
 * Selector of entries of the outbox: one entry, those of an alias or of an owner's handles, or
 * all.
 */
export interface OutboxSelection extends RegistrationOwner {
  readonly id?: string;
  readonly alias?: string;
}

/** API of pending and dead signals. */
export interface OutboxApi {
  /**
   * Returns dead letters first, then pending signals, the oldest first. `limit` defaults to 1,000.
   */
  list(
    selection?: OutboxSelection & {
      readonly isDead?: boolean;
      /** Whether to list the signals that were delivered within a day instead, the latest first. */
      readonly isDelivered?: boolean;
      readonly limit?: number;
    },
  ): Promise<readonly OutboxEntry[]>;
  /**
   * Moves dead letters to the end of their handle's queue. A signal that expired while it was held
   * goes to the handle that is registered for it now.
   * @returns the entries that are retried
   * @throws BridgeError ERR_SIGNAL_UNKNOWN, ERR_SIGNAL_QUOTA, ERR_HANDLE_UNKNOWN if the handle was
   * removed
   */
  retry(selection: OutboxSelection): Promise<readonly OutboxEntry[]>;
  /**
   * Drops signals, including pending ones.
   * @throws BridgeError ERR_SIGNAL_UNKNOWN
   */
  drop(selection: OutboxSelection): Promise<readonly OutboxEntry[]>;
}

export interface SignalsApi {
  readonly handles: HandlesApi;
  readonly outbox: OutboxApi;
}
