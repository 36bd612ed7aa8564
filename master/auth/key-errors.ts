import { type ErrorEntry, SaltbridgeError } from '#runtime';

/** Codes of {@link KeyError}. */
export const keyErrors = {
  ERR_KEY_FINGERPRINT: {
    meaning: 'The fingerprint of the key does not match the given one.',
    action: 'Compare it with the fingerprint on the minion; another machine may use the id.',
  },
  ERR_KEY_ID: {
    meaning: 'The id is not a valid minion id, or minion_ids does not permit it for new minions.',
    action:
      'Give the machine an id of letters, digits, ".", "-", "_", ":", "@" and "+", or set saltbridge: minion_ids: salt.',
  },
  ERR_KEY_INVALID: {
    meaning: 'The key file does not contain an RSA public key; the key is unchanged.',
    action: 'Delete the key; the minion then sends its own again.',
    retry: false,
  },
  ERR_KEY_STATE: {
    meaning: 'The operation is not possible in the current state of the key.',
    action:
      'Check the state of the key; --include-rejected, --include-denied and --include-accepted select other keys.',
  },
  ERR_KEY_UNKNOWN: {
    meaning: 'The id has no key.',
    action: 'Check the list of keys; the minion may not have signed in yet.',
    retry: true,
  },
  ERR_PKI_DIR: {
    meaning: 'The PKI directory could not be read or written.',
    action: 'Check the cause: disk space, permissions, or a file instead of a directory.',
    retry: true,
  },
} satisfies Readonly<Record<string, ErrorEntry>>;

/** Error of a rejected or failed operation on a minion's key. No key was changed. */
export class KeyError extends SaltbridgeError<keyof typeof keyErrors> {}
