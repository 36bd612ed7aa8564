/** Interfaces to handles and the outbox: for programs, at the local socket, with audit records. */

import type { RegistrationOwner, RegistrationsApi } from '../registrations.ts';
import type { HandleInfo, HandleRegistration } from './handles.ts';
import type { OutboxEntry } from './outbox-entry.ts';

/**
 * The handles that minions may signal. `add` delivers signals that came before the handle and are held
 * for it. Signals for an endpoint that is not listed end in the dead-letter list: `isListed` shows that
 * before. `list` has handles that ended for a day. After `remove`, what waits for the handle goes to
 * the dead-letter list. If several owners or stacks have the alias, the error is ERR_HANDLE_AMBIGUOUS.
 */
export type HandlesApi = RegistrationsApi<
  HandleRegistration,
  HandleInfo,
  HandleInfo,
  HandleOwnerAndStack
>;

/** Selects one of several handles with the same alias. */
interface HandleOwnerAndStack extends RegistrationOwner {
  /** Stack of the handle. Default: any; several are ERR_HANDLE_AMBIGUOUS. */
  readonly stack?: string;
}

/** Which entries of the outbox are meant: one, those of an alias or of an owner's handles, or all. */
export interface OutboxSelection extends RegistrationOwner {
  readonly id?: string;
  readonly alias?: string;
}

/** The signals that are on their way, and those that were given up. */
export interface OutboxApi {
  /** Those that are over first, then the others, the oldest first. At most `limit` (1,000). */
  list(
    selection?: OutboxSelection & {
      readonly isDead?: boolean;
      /** Those that were delivered within a day instead, the latest first. */
      readonly isDelivered?: boolean;
      readonly limit?: number;
    },
  ): Promise<readonly OutboxEntry[]>;
  /**
   * Puts signals of the dead-letter list behind the others of their handle; those that were held in
   * vain, behind the others of the handle that is registered for them now.
   * @returns those that are tried again
   * @throws BridgeError ERR_SIGNAL_UNKNOWN, ERR_SIGNAL_QUOTA, ERR_HANDLE_UNKNOWN where the handle is
   * gone
   */
  retry(selection: OutboxSelection): Promise<readonly OutboxEntry[]>;
  /**
   * Forgets signals, also those that wait.
   * @throws BridgeError ERR_SIGNAL_UNKNOWN
   */
  drop(selection: OutboxSelection): Promise<readonly OutboxEntry[]>;
}

export interface SignalsApi {
  readonly handles: HandlesApi;
  readonly outbox: OutboxApi;
}
