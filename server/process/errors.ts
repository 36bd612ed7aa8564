import { type ErrorEntry, SaltbridgeError } from '#runtime';

type ProcessErrorCode = 'ERR_TENANT' | 'ERR_USER';

/** The process of a master cannot start. */
export class ProcessError extends SaltbridgeError {
  declare readonly code: ProcessErrorCode;

  constructor(code: ProcessErrorCode, message: string, options?: ErrorOptions) {
    super(code, message, options);
  }
}

/** Meaning of each code. */
export const processErrors: Readonly<Record<ProcessErrorCode, ErrorEntry>> = {
  ERR_TENANT: {
    meaning: 'One of several tenants could not start, and so none did.',
    action: 'Mend what the message says of it; its own log file has it too.',
    retry: true,
  },
  ERR_USER: {
    meaning: "The configuration's user has no account here, or may not use the master's folders.",
    action: 'Correct user, or give the folder that the message names to that user.',
    retry: false,
  },
};
