/** Why the bridge refuses, each with a code that never changes its meaning. */
import type { ErrorEntry } from '../master/index.ts';

export type BridgeErrorCode =
  | 'ERR_BRIDGE_NOT_OPEN'
  | 'ERR_BRIDGE_OPTIONS'
  | 'ERR_HANDLE_EXISTS'
  | 'ERR_HANDLE_FORM'
  | 'ERR_HANDLE_LIMIT'
  | 'ERR_HANDLE_UNKNOWN'
  | 'ERR_SIGNAL_QUOTA'
  | 'ERR_SIGNAL_UNKNOWN';

/** What each code means to the person who meets it; `docs/errors.md` holds the same. */
export const bridgeErrors: Readonly<Record<BridgeErrorCode, ErrorEntry>> = {
  ERR_BRIDGE_NOT_OPEN: {
    meaning: 'The bridge is not open: its master has not been started, or is being closed.',
    action: 'Give the bridge to createMaster as one of its extensions, and start that master.',
    retry: false,
  },
  ERR_BRIDGE_OPTIONS: {
    meaning:
      'A value under `saltbridge: bridge:`, or given to createBridge, is not what it can be.',
    action: 'Correct the key that the message names; docs/bridge.md lists them.',
    retry: false,
  },
  ERR_HANDLE_EXISTS: {
    meaning: 'A handle has this alias already, perhaps that of another owner.',
    action: 'Choose another alias, remove the handle, or replace it with --replace.',
    retry: false,
  },
  ERR_HANDLE_FORM: {
    meaning: 'A handle cannot be registered as it is given, or where its signals go is unreadable.',
    action:
      'Correct what the message names; docs/bridge.md has every form in which Heat gives one.',
    retry: false,
  },
  ERR_HANDLE_LIMIT: {
    meaning: 'As many handles as may be are registered.',
    action: 'Remove handles that are no longer used; those that have ended go after a day.',
    retry: true,
  },
  ERR_HANDLE_UNKNOWN: {
    meaning: 'No handle of this alias is registered, or not the one that a signal was for.',
    action: 'saltbridge bridge handle list shows those there are.',
    retry: false,
  },
  ERR_SIGNAL_QUOTA: {
    meaning: 'The outbox is full, in all or for this minion or stack.',
    action: 'Wait until signals are delivered, drop some, or raise the quota that is named.',
    retry: true,
  },
  ERR_SIGNAL_UNKNOWN: {
    meaning: 'The outbox has no such signal, or not in the state that this needs.',
    action: 'saltbridge bridge outbox list shows those there are.',
    retry: false,
  },
};

/** The bridge cannot do what it was asked for. The message says what to do, and no secret. */
export class BridgeError extends Error {
  readonly code: BridgeErrorCode;

  constructor(code: BridgeErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}
