import { type ErrorEntry, SaltbridgeError } from '#runtime';

/** The process of a master cannot start. */
export class ProcessError extends SaltbridgeError<keyof typeof processErrors> {}

/** Meaning of each code. */
export const processErrors = {
  ERR_TENANT: {
    meaning: 'One of several tenants could not start, and so none did.',
    action: 'Mend what the message says of it; its own log file has it too.',
    retry: true,
  },
  ERR_USER: {
    meaning: "The configuration's user has no account here, or may not use the master's folders.",
    action: 'Correct user, or give the folder that the message names to that user.',
  },
} satisfies Readonly<Record<string, ErrorEntry>>;
