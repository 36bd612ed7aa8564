/** Why the bridge refuses, each with a code that never changes its meaning. */
import type { ErrorEntry } from '../master/index.ts';

export type BridgeErrorCode = 'ERR_BRIDGE_NOT_OPEN' | 'ERR_BRIDGE_OPTIONS';

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
