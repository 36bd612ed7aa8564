import { type ErrorEntry, SaltbridgeError } from '#runtime/errors.ts';

/**
 * Error for bytes or values that violate the protocol. The message describes the input, but never
 * contains it.
 */
export class ProtocolError extends SaltbridgeError<ProtocolErrorCode> {}

/** Meaning and remedy of every protocol error code. */
export const protocolErrors = {
  ERR_BAD_PAYLOAD: {
    meaning: 'A message is not exactly one valid MessagePack value.',
    action:
      'Check that the peer is a Salt minion and that no device on the network changes the bytes.',
  },
  ERR_PAYLOAD_LIMIT: {
    meaning: 'A message is larger or deeper than its limit allows, or has more elements.',
    action: 'If you trust the sender, raise the limit for this kind of message.',
  },
  ERR_BAD_ENVELOPE: {
    meaning:
      'The outer map of a message lacks `enc` or `load`, or one of its fields has the wrong type.',
    action: 'Find the program that sends the message and check its version.',
  },
  ERR_BAD_LOAD: {
    meaning: 'The content of a message lacks a field, or a field has the wrong type or size.',
    action: 'Check the version of the minion, and the modules on it that send requests.',
  },
  ERR_BAD_ID: {
    meaning: 'A minion id is not valid, or two ids in the same request differ.',
    action: 'Correct the `id` option of the minion.',
  },
  ERR_BAD_KEY_STRING: {
    meaning:
      'An AES key is not valid: it must be base64 of a 24-byte AES key and a 32-byte HMAC key.',
    action: 'Check the key file. If you delete it, a new one is generated.',
  },
  ERR_BAD_HMAC: {
    meaning: 'A message was not encrypted with the current key, or it was changed.',
    action: 'None: the minion signs in again and repeats the request.',
    retry: true,
  },
  ERR_BAD_PADDING: {
    meaning:
      'A message has a valid HMAC, but its ciphertext does not have the form that Salt produces.',
    action: 'Find the program that encrypts with this key: it is not an unmodified Salt minion.',
  },
  ERR_NONCE: {
    meaning: 'A nonce is missing or malformed, or it differs from the nonce of the request.',
    action: 'If it happens often, check the network for an attacker who replays messages.',
    retry: true,
  },
  ERR_EXPIRED: {
    meaning:
      'The time stamp of a request is missing, or it differs too much from the current time.',
    action: 'Compare the clocks of master and minion; see `request_server_ttl`.',
    retry: true,
  },
  ERR_TOKEN: {
    meaning: 'The token of a minion, which proves its identity, is missing or malformed.',
    action: 'Check the version of the minion.',
  },
  ERR_BAD_KEY: {
    meaning: 'A key is not an RSA key of 2048 to 8192 bits with a sound exponent.',
    action: 'Delete the key pair on the minion or master that sent it, and restart that program.',
  },
  ERR_ALGORITHM: {
    meaning: 'The peer does not support an encryption or signing algorithm.',
    action: 'Correct `encryption_algorithm` and `signing_algorithm`.',
  },
  ERR_DECRYPT: {
    meaning: 'RSA decryption failed, because the peer used another key or algorithm.',
    action: 'Compare the stored public keys of both sides with the keys in use.',
    retry: true,
  },
  ERR_BAD_SIGNATURE: {
    meaning: 'A signature is missing or not valid.',
    action: 'Check that the message comes from the master whose public key the minion has stored.',
    retry: true,
  },
  ERR_MASTER_KEY: {
    meaning:
      "The master's key differs from the stored key, or the master could not prove that it has the private key.",
    action: 'If you replaced the master, delete the stored key of the master on the minion.',
    retry: true,
  },
  ERR_MASTER_FINGER: {
    meaning: 'The fingerprint of the master key does not match the configured one.',
    action: 'Correct `master_finger`, or find out which host answers at the address of the master.',
  },
  ERR_BAD_REPLY: {
    meaning: 'A reply does not have the form that the request requires.',
    action: 'Sign in again and repeat the request.',
    retry: true,
  },
  ERR_BAD_EVENT: {
    meaning: 'An event has no tag, or its tag cannot be encoded.',
    action: 'Correct the sender of the event.',
  },
} satisfies Readonly<Record<string, ErrorEntry>>;

/** Code of a protocol error. {@link protocolErrors} explains each code. */
export type ProtocolErrorCode = keyof typeof protocolErrors;
