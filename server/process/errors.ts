import { type ErrorEntry, SaltbridgeError } from '#runtime';

/** Error that prevents a master process from starting. */
export class ProcessError extends SaltbridgeError<keyof typeof processErrors> {}

/** Meaning and remedy of each code. */
export const processErrors = {
  ERR_TENANT: {
    meaning: 'One of several tenants could not start, so none of them was started.',
    action: 'Fix the cause in the message, which is also in its log file.',
    retry: true,
  },
  ERR_USER: {
    meaning:
      "The configuration's user has no account here, or may not use the master's directories.",
    action: 'Correct user, or give the directory in the message to that user.',
  },
} satisfies Readonly<Record<string, ErrorEntry>>;
