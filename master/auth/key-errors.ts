import { type ErrorEntry, SaltbridgeError } from '#runtime';

/** The codes of {@link KeyError}. */
export const keyErrors = {
  ERR_KEY_FINGERPRINT: {
    meaning: 'The key has another fingerprint than the one that was to be accepted.',
    action: 'Compare with the fingerprint on the minion; another machine may use its id.',
  },
  ERR_KEY_ID: {
    meaning: 'This cannot be the id of a minion, or not of a new one.',
    action:
      'Give the machine an id of letters, digits, ".", "-", "_", ":", "@" and "+", or set saltbridge: minion_ids: salt.',
  },
  ERR_KEY_INVALID: {
    meaning: 'The file of the key holds no RSA public key; the key stays where it is.',
    action: 'Delete the key, and let the minion send its own again.',
    retry: false,
  },
  ERR_KEY_STATE: {
    meaning: 'The key is not in a state from which this can be done.',
    action: 'Look at the state of the key; rejected, denied or accepted ones need their option.',
  },
  ERR_KEY_UNKNOWN: {
    meaning: 'There is no key of this id.',
    action: 'Look at the list of keys; the minion may not have asked yet.',
    retry: true,
  },
  ERR_PKI_DIR: {
    meaning: 'The PKI directory could not be read or written.',
    action: 'Look at the cause: space, rights, a file in place of a directory.',
    retry: true,
  },
} satisfies Readonly<Record<string, ErrorEntry>>;

/** A transition of a minion's key that was refused or failed. Nothing has changed. */
export class KeyError extends SaltbridgeError<keyof typeof keyErrors> {}
