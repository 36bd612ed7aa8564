/** Errors of calls that can continue on another master. The meaning of a code never changes. */

import { type ErrorEntry, SaltbridgeError } from '#runtime';

/**
 * Error of a master, or of the connection to it. `code` is the master's code, or `ERR_SOCKET` if no
 * master could be reached.
 */
export class RemoteError extends SaltbridgeError {
  /** Whether the master may have carried out the call, completely or in part. */
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
      'The master stopped or became unreachable during the call. It is unknown whether the call was carried out.',
    action: 'Check whether the call was carried out before you repeat it.',
  },
  ERR_WAITING_CALLS: {
    meaning: 'Too many calls of this process already wait for a master. The call was not sent.',
    action: 'Repeat the call when a master is running.',
    retry: true,
  },
} satisfies Readonly<Record<string, ErrorEntry>>;
