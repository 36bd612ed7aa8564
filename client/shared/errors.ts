/** Errors of a master that several processes share. The meaning of a code never changes. */

import { type ErrorEntry, SaltbridgeError } from '#runtime';

export const sharedMasterErrors = {
  ERR_HOLDER_HUNG: {
    meaning:
      'The process that runs the shared master does not respond, and this process cannot end it.',
    action: 'End the process that the message names. Another process then takes over.',
    retry: true,
  },
  ERR_NO_HOLDER: {
    meaning:
      'For takeover_after plus holder_wait, no process ran the shared master. The call was not sent.',
    action: 'Find the reason in the logs of the processes that tried to start it.',
    retry: true,
  },
  ERR_OPTIONS_DIFFER: {
    meaning:
      'The options of this process differ from the options of the process that runs the shared master.',
    action: 'Set each option that the message names to the same value in all processes.',
  },
} satisfies Readonly<Record<string, ErrorEntry>>;

export type SharedMasterErrorCode = keyof typeof sharedMasterErrors;

/** Error of a call to a shared master. */
export class SharedMasterError extends SaltbridgeError<SharedMasterErrorCode> {}
