/** The errors of a master that several processes share, each with a code that never changes its meaning. */

import { type ErrorEntry, SaltbridgeError } from '#runtime';

export const sharedMasterErrors = {
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
  },
} satisfies Readonly<Record<string, ErrorEntry>>;

export type SharedMasterErrorCode = keyof typeof sharedMasterErrors;

/** Why a call of a shared master failed. */
export class SharedMasterError extends SaltbridgeError<SharedMasterErrorCode> {}
