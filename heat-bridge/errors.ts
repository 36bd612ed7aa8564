/** Why the bridge refuses, each with a code that never changes its meaning. */
import type { ErrorEntry } from '../master/index.ts';

export type BridgeErrorCode =
  | 'ERR_BRIDGE_NOT_OPEN'
  | 'ERR_BRIDGE_OPTIONS'
  | 'ERR_CATALOG'
  | 'ERR_COMMAND_BUSY'
  | 'ERR_COMMAND_DENIED'
  | 'ERR_COMMAND_KEY'
  | 'ERR_COMMAND_PARAMETERS'
  | 'ERR_COMMAND_TARGET'
  | 'ERR_COMMAND_UNKNOWN'
  | 'ERR_RUN_UNKNOWN';

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
  ERR_CATALOG: {
    meaning: 'A command of the catalog cannot be used: its form, its function, or a schema of it.',
    action: 'Correct what the message names; `saltbridge bridge lint` finds all such places.',
    retry: false,
  },
  ERR_COMMAND_BUSY: {
    meaning: 'As many runs of a command as its concurrency limit permits are under way.',
    action: 'Wait for them to end, or raise `concurrency` in the catalog.',
    retry: true,
  },
  ERR_COMMAND_DENIED: {
    meaning: 'No rule permits the caller this command with these parameters on all of the target.',
    action:
      'Ask the operator for a rule of the action `command`; `saltbridge acl explain` says which are near.',
    retry: false,
  },
  ERR_COMMAND_KEY: {
    meaning: 'An idempotency key was used before, for other parameters or another target.',
    action: 'Use a new key for another request, and the same parameters for the same key.',
    retry: false,
  },
  ERR_COMMAND_PARAMETERS: {
    meaning: 'The parameters of a command do not fit its schema, or a text in them is refused.',
    action:
      'Correct the parameter that the message names; `saltbridge bridge show` describes them.',
    retry: false,
  },
  ERR_COMMAND_TARGET: {
    meaning: 'The target of a command means no accepted minion for certain.',
    action:
      'Name minions whose keys are accepted; `saltbridge salt --plan` shows whom a target means.',
    retry: false,
  },
  ERR_COMMAND_UNKNOWN: {
    meaning: 'No command of this name is in the catalog.',
    action: 'Use one of those that `saltbridge bridge list` shows; names are exact.',
    retry: false,
  },
  ERR_RUN_UNKNOWN: {
    meaning: 'No run of this id is kept for the caller.',
    action: "Use the id that the caller's own run was answered with; runs are kept for a day.",
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
