import { type ErrorEntry, SaltbridgeError } from '#runtime/errors.ts';

/** Bytes or shapes that are not the protocol. The message names what came, and never shows it. */
export class ProtocolError extends SaltbridgeError<ProtocolErrorCode> {}

/** Every code, with its meaning and what to do. */
export const protocolErrors = {
  ERR_BAD_PAYLOAD: {
    meaning: 'The bytes are not one complete MessagePack value of the protocol.',
    action: 'Check that the peer is a Salt minion and that nothing changes bytes on the way.',
  },
  ERR_PAYLOAD_LIMIT: {
    meaning: 'A message is larger, deeper or has more elements than its limit allows.',
    action: 'If the sender is genuine, raise the limit for its kind of message.',
  },
  ERR_BAD_ENVELOPE: {
    meaning: 'The outer message lacks `enc` or `load`, or a field has the wrong type or version.',
    action: 'Check which program sends it, and its version.',
  },
  ERR_BAD_LOAD: {
    meaning: 'The inner message lacks a field or a field has the wrong type or size.',
    action: 'Check the version of the minion and what its modules send.',
  },
  ERR_BAD_ID: {
    meaning: 'A minion id is not valid, or it is not the id that the envelope names.',
    action: 'Correct the `id` option of the minion.',
  },
  ERR_BAD_KEY_STRING: {
    meaning: 'A text is not the base64 form of a 24 byte AES key and a 32 byte HMAC key.',
    action: 'Check the key file; delete it to have it made anew.',
  },
  ERR_BAD_HMAC: {
    meaning: 'A message was not encrypted with the key that is valid now, or was changed.',
    action: 'Nothing: a minion signs in again and repeats the request.',
    retry: true,
  },
  ERR_BAD_PADDING: {
    meaning: 'A message has a valid HMAC, but its ciphertext is not as Salt makes it.',
    action: 'Look at the program that holds the key: it is not a Salt minion.',
  },
  ERR_NONCE: {
    meaning: 'A nonce is missing, malformed, or not the one that was sent.',
    action: 'If it happens often, look for somebody who replays messages.',
    retry: true,
  },
  ERR_EXPIRED: {
    meaning: 'The time stamp of a request is missing or too far from the present.',
    action: 'Compare the clocks of master and minion; see `request_server_ttl`.',
    retry: true,
  },
  ERR_TOKEN: {
    meaning: 'The proof of identity in a request is missing or malformed.',
    action: 'Check the version of the minion.',
  },
  ERR_BAD_KEY: {
    meaning: 'A key is not an RSA key of 2048 to 8192 bits with a sound exponent.',
    action: 'Delete the key pair of the peer and let it make a new one.',
  },
  ERR_ALGORITHM: {
    meaning: 'An encryption or signing algorithm is unknown to the other side.',
    action: 'Correct `encryption_algorithm` and `signing_algorithm`.',
  },
  ERR_DECRYPT: {
    meaning: 'RSA decryption failed: another key or another algorithm was used.',
    action: 'Check that both sides hold the keys they believe to hold.',
    retry: true,
  },
  ERR_BAD_SIGNATURE: {
    meaning: 'A signature is missing or does not verify.',
    action: 'Check that the sender is the master whose key is stored.',
    retry: true,
  },
  ERR_MASTER_KEY: {
    meaning: 'A master showed another key than the stored one, or could not prove that it has it.',
    action: 'If the master was replaced on purpose, delete the stored key of the master.',
    retry: true,
  },
  ERR_MASTER_FINGER: {
    meaning: 'The fingerprint of the master key is not the configured one.',
    action: 'Correct `master_finger`, or find out who answers.',
  },
  ERR_BAD_REPLY: {
    meaning: 'An answer does not have the form that the request asks for.',
    action: 'Sign in again and repeat the request.',
    retry: true,
  },
  ERR_BAD_EVENT: {
    meaning: 'An event has no tag, or a tag that cannot be written.',
    action: 'Correct the sender of the event.',
  },
} satisfies Readonly<Record<string, ErrorEntry>>;

/** What went wrong on the wire; each code is explained in {@link protocolErrors}. */
export type ProtocolErrorCode = keyof typeof protocolErrors;
