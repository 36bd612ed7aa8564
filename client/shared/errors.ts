/** The errors of a master that several processes share, each with a code that never changes its meaning. */

import { type ErrorEntry, SaltbridgeError } from '#runtime';

export type SharedMasterErrorCode = 'ERR_HOLDER_HUNG' | 'ERR_NO_HOLDER' | 'ERR_OPTIONS_DIFFER';

export const sharedMasterErrors: Readonly<Record<SharedMasterErrorCode, ErrorEntry>> = {
  ERR_HOLDER_HUNG: {
    meaning:
      'The process that holds the master answers nothing, and this process may not or cannot end it.',
    action: 'End the process that the message names, by hand; another one takes over then.',
    retry: true,
  },
  ERR_NO_HOLDER: {
    meaning: 'No process held the master for takeover_after and holder_wait; nothing was done.',
    action: 'Look at the logs of the processes for why none of them could start it.',
    retry: true,
  },
  ERR_OPTIONS_DIFFER: {
    meaning: 'This process has other options than the process that holds the master.',
    action: 'Give all processes the same value of each option that the message names.',
    retry: false,
  },
};

/** Why a call of a shared master failed. */
export class SharedMasterError extends SaltbridgeError {
  declare readonly code: SharedMasterErrorCode;

  constructor(code: SharedMasterErrorCode, message: string, options?: ErrorOptions) {
    super(code, message, options);
  }
}
