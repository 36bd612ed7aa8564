/** Interfaces to handles and the outbox: for programs, at the local socket, with audit records. */

import type { HandleInfo, HandleRegistration } from './handles.ts';
import type { OutboxEntry } from './outbox-entry.ts';

/** The handles that minions may signal. */
export interface HandlesApi {
  /**
   * Registers a handle; durable when it resolves. Signals for an endpoint that is not listed end in
   * the dead-letter list: `isListed` says so before.
   * Signals that came before it, and are held for it, are delivered.
   * @throws BridgeError ERR_HANDLE_FORM, ERR_HANDLE_EXISTS (unless it `replaces` one of this owner),
   * ERR_HANDLE_LIMIT
   */
  add(
    registration: HandleRegistration,
    options?: { readonly replaces?: boolean },
  ): Promise<HandleInfo>;
  /** By alias; those that ended are shown for a day. */
  list(selection?: HandleOwner): Promise<readonly HandleInfo[]>;
  /** @throws BridgeError ERR_HANDLE_UNKNOWN, ERR_HANDLE_AMBIGUOUS */
  show(alias: string, of?: HandleOwnerAndStack): Promise<HandleInfo>;
  /**
   * Forgets a handle and its secrets. What waits for it goes to the dead-letter list.
   * @throws BridgeError ERR_HANDLE_UNKNOWN, ERR_HANDLE_AMBIGUOUS
   */
  remove(alias: string, of?: HandleOwnerAndStack): Promise<HandleInfo>;
}

/** Whose handle of an alias is meant. Default: anybody's; several are ERR_HANDLE_AMBIGUOUS. */
export interface HandleOwner {
  readonly owner?: string;
}

/** Selects one of several handles with the same alias. */
export interface HandleOwnerAndStack extends HandleOwner {
  /** Stack of the handle. Default: any; several are ERR_HANDLE_AMBIGUOUS. */
  readonly stack?: string;
}

/** Which entries of the outbox are meant: one, those of an alias or of an owner's handles, or all. */
export interface OutboxSelection extends HandleOwner {
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
