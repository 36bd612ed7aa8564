/**
 * Handshake between a site and its centre, without I/O. Both sides sign the whole transcript, which
 * contains their names, versions, clocks and random numbers, and the keying material of the TLS
 * connection.
 *
 * | step | sender | content                                                              |
 * |------|--------|----------------------------------------------------------------------|
 * | 1    | site   | hello: name, version, clock, random number, early requests; signature |
 * | 2    | centre | challenge: version, clock, random number, seal key; signature        |
 * | 3    | site   | proof: signature, only if the hello has none                         |
 * | 4    | centre | welcome: empty; the replies to the early requests follow             |
 * | 5    | site   | choice: empty; the site uses this connection                         |
 *
 * The site signs its hello if the signature covers the keying material of the TLS connection. The
 * centre has contributed to this material, so the signature is not valid on another connection.
 * Without such material, the site does not sign its hello. It then sends a proof, whose signature
 * covers the random number of the challenge.
 */

import type { KeyObject } from 'node:crypto';
import Type, { type Static, type TSchema } from 'typebox';
import { packLocal, unpackLocal } from '#minion-protocol';
import { compileSchema, type SchemaCheck } from '#runtime';
import { Bytes } from '#store';
import { EdgeError } from '../errors.ts';
import {
  isSignedBy,
  keyBytes,
  publicBytesOf,
  signatureBytes,
  signParts,
} from '../identity/ed25519.ts';
import { sealKeyBytes } from '../identity/sealed-box.ts';

/** Version of the protocol. A connection uses the lower version of the two sides. */
export const protocolVersion = 1;

/**
 * Maximum size of a message of the handshake, in bytes. In base64url, the hello fits into the
 * headers of a request.
 */
export const maxHelloBytes = 5120;

/**
 * Maximum size of the encrypted early requests in a hello, the first message of the handshake, in
 * bytes.
 */
export const maxEarlyBytes = 4608;

/** Size of a random number, in bytes. */
export const nonceBytes = 32;

/**
 * Label with which both sides export keying material from the TLS connection [RFC 5705]. The
 * signatures cover this material.
 */
export const exporterLabel = 'EXPORTER-saltbridge-site-link';

const centrePurpose = 'saltbridge link centre 1';
const sitePurpose = 'saltbridge link site 1';
const helloPurpose = 'saltbridge link hello 1';

const bytesOf = (size: number) => Type.Refine(Bytes, (value) => value.byteLength === size);
const strict = { additionalProperties: false };
const shared = {
  protocol: Type.Integer({ minimum: 1, maximum: 255 }),
  version: Type.String({ maxLength: 64 }),
  nonce: bytesOf(nonceBytes),
  /** Clock of the sender, in milliseconds since 1970. */
  time: Type.Integer({ minimum: 0, maximum: 2 ** 48 }),
};

const Hello = Type.Object(
  {
    ...shared,
    site: Type.String({ minLength: 1, maxLength: 63 }),
    /** Whether the signatures contain the keying material of the TLS connection. */
    isBound: Type.Boolean(),
    /**
     * Requests that the site sends together with this first message (hello), encrypted for the
     * X25519 key of the centre.
     */
    early: Type.Optional(Type.Refine(Bytes, (value) => value.byteLength <= maxEarlyBytes)),
  },
  strict,
);
export type Hello = Readonly<Static<typeof Hello>>;

const Challenge = Type.Object(
  {
    ...shared,
    key: bytesOf(keyBytes),
    /**
     * X25519 key of the centre. With this key, a site encrypts the early requests that it sends
     * with the handshakes of its next connections.
     */
    sealKey: bytesOf(sealKeyBytes),
  },
  strict,
);
export type Challenge = Readonly<Static<typeof Challenge>>;

const HelloEnvelope = Type.Object(
  { body: Bytes, signature: Type.Optional(bytesOf(signatureBytes)) },
  strict,
);
const SignedChallenge = Type.Object({ body: Bytes, signature: bytesOf(signatureBytes) }, strict);
const Proof = Type.Object({ signature: bytesOf(signatureBytes) }, strict);

const checkHello = compileSchema(Hello);
const checkChallenge = compileSchema(Challenge);
const checkEnvelope = compileSchema(HelloEnvelope);
const checkSigned = compileSchema(SignedChallenge);
const checkProof = compileSchema(Proof);

const limits = { maxBytes: maxHelloBytes, maxDepth: 4, maxElements: 64 };

/**
 * Name of the header in which the WebSocket upgrade request contains the first message of the
 * handshake, in base64url. The site then need not wait for the reply to the upgrade before it sends
 * this message.
 */
export const helloHeader = 'x-saltbridge-hello';

/**
 * Keying material of the TLS connection, which the signatures of the handshake cover. Empty if they
 * do not cover it.
 */
export type Binding = Uint8Array;

/** First message of the handshake: the decoded hello, its encoded form, and its signature. */
export interface SignedHello {
  readonly hello: Hello;
  /** Bytes of the encoded hello. The signatures are made over these bytes. */
  readonly body: Uint8Array;
  /**
   * Signature of the site. Present if the site sends the hello over TLS and binds it to this
   * connection.
   */
  readonly signature: Uint8Array | undefined;
}

/** Encodes the hello, which is the first message of the handshake, without its signature. */
export function encodeHello(hello: Hello): Buffer {
  const { protocol, version, nonce, time, site, isBound, early } = hello;
  const given = early === undefined ? {} : { early };
  return packLocal({ protocol, version, nonce, time, site, isBound, ...given });
}

/**
 * Signs an encoded hello together with the keying material of the TLS connection, and returns the
 * message to send.
 */
export function signHello(key: KeyObject, hello: Uint8Array, binding: Binding): Buffer {
  return packLocal({ body: hello, signature: signParts(key, helloPurpose, [hello, binding]) });
}

/**
 * Returns the message to send for an encoded hello (first message of the handshake) that has no
 * signature.
 */
export function unsignedHello(hello: Uint8Array): Buffer {
  return packLocal({ body: hello });
}

/**
 * Decodes the first message of the handshake (hello). Does not verify the signature.
 *
 * @throws EdgeError ERR_SITE_MESSAGE if the message is malformed, or its signature is missing or
 * not permitted. A hello that is bound to the TLS connection must have a signature. Any other hello
 * must have none
 */
export function readHello(bytes: Uint8Array): SignedHello {
  const { body, signature } = read(checkEnvelope, bytes);
  const hello = read(checkHello, body);
  if (hello.isBound === (signature !== undefined)) return { hello, body, signature };
  const text =
    'the handshake message `hello` must be signed if it is bound to its TLS connection, and unsigned otherwise';
  throw new EdgeError('ERR_SITE_MESSAGE', text);
}

/**
 * Returns a function that verifies the signature of a hello (the first message of the handshake)
 * with a public key.
 * @param binding - keying material of this TLS connection
 */
export function proofOfHello(
  { body, signature }: SignedHello,
  binding: Binding,
): (siteKey: Uint8Array) => boolean {
  return (key) =>
    signature !== undefined &&
    binding.byteLength > 0 &&
    isSignedBy(key, helloPurpose, [body, binding], signature);
}

/** Encodes and signs the challenge, the second message of the handshake, which the centre sends. */
export function encodeChallenge(
  key: KeyObject,
  hello: Uint8Array,
  { protocol, version, nonce, time, sealKey }: Omit<Challenge, 'key'>,
  binding: Binding,
): Buffer {
  const body = packLocal({ protocol, version, nonce, time, key: publicBytesOf(key), sealKey });
  return packLocal({ body, signature: signParts(key, centrePurpose, [hello, body, binding]) });
}

/**
 * Decodes the challenge, the second message of the handshake, and verifies the signature of the
 * centre.
 * @throws EdgeError ERR_SITE_MESSAGE if the message is malformed, ERR_SITE_REFUSED if another key
 * signed it
 */
export function readChallenge(
  centreKey: Uint8Array,
  hello: Uint8Array,
  bytes: Uint8Array,
  binding: Binding,
): Challenge {
  const { body, signature } = read(checkSigned, bytes);
  const challenge = read(checkChallenge, body);
  const isOfCentre =
    Buffer.compare(challenge.key, centreKey) === 0 &&
    isSignedBy(centreKey, centrePurpose, [hello, body, binding], signature);
  if (!isOfCentre) {
    const text = 'the other side is not the centre that this site has joined';
    throw new EdgeError('ERR_SITE_REFUSED', text);
  }
  return challenge;
}

/**
 * Encodes and signs the proof, the third message of the handshake. A site sends the proof only if
 * its first message (the hello) has no signature.
 */
export function encodeProof(
  key: KeyObject,
  hello: Uint8Array,
  challenge: Uint8Array,
  binding: Binding,
): Buffer {
  return packLocal({ signature: signParts(key, sitePurpose, [hello, challenge, binding]) });
}

/**
 * Decodes the proof, the third message of the handshake. Returns a function that checks the
 * signature in the proof with a public key.
 * @throws EdgeError ERR_SITE_MESSAGE if the message is malformed
 */
export function readProof(
  hello: Uint8Array,
  challenge: Uint8Array,
  bytes: Uint8Array,
  binding: Binding,
): (siteKey: Uint8Array) => boolean {
  const { signature } = read(checkProof, bytes);
  return (key) => isSignedBy(key, sitePurpose, [hello, challenge, binding], signature);
}

function read<S extends TSchema>(check: SchemaCheck<S>, bytes: Uint8Array): Static<S> {
  try {
    return check.Parse(unpackLocal(bytes, limits)) as Static<S>;
  } catch (cause) {
    throw new EdgeError('ERR_SITE_MESSAGE', 'a message of the handshake is malformed', { cause });
  }
}
