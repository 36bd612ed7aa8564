/** The errors of calls that go from one master to the next, each with a code that never changes its meaning. */

import { type ErrorEntry, SaltbridgeError } from '#runtime';

/**
 * What a master answered, or why it could not be asked. `code` is the master's; `ERR_SOCKET` when no
 * master could be reached.
 */
export class RemoteError extends SaltbridgeError {
  /** Whether the master may have carried the call out, or begun to. */
  readonly wasSent: boolean;

  constructor(
    code: string,
    message: string,
    { wasSent = true, ...options }: ErrorOptions & { readonly wasSent?: boolean } = {},
  ) {
    super(code, message, options);
    this.wasSent = wasSent;
  }
}

export const clientErrors = {
  ERR_OUTCOME_UNKNOWN: {
    meaning:
      'The master ended, or could no longer be reached, during the call, and what it had done by then cannot be learned.',
    action: 'Look whether it was done before you call again.',
  },
  ERR_WAITING_CALLS: {
    meaning: 'As many calls as may wait for a master do so; nothing was done.',
    action: 'Call again when a master has taken over.',
    retry: true,
  },
} satisfies Readonly<Record<string, ErrorEntry>>;
