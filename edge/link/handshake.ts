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
 * The site signs its hello if the signature contains the keying material of the TLS connection. The
 * centre has contributed to this material, so the signature cannot be repeated. On other
 * connections, the site signs the random number of the challenge.
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

/** Maximum size of the sealed early requests in a hello, in bytes. */
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
    /** Early requests, sealed to the seal key of the centre. */
    early: Type.Optional(Type.Refine(Bytes, (value) => value.byteLength <= maxEarlyBytes)),
  },
  strict,
);
export type Hello = Readonly<Static<typeof Hello>>;

const Challenge = Type.Object(
  {
    ...shared,
    key: bytesOf(keyBytes),
    /** X25519 key to which a site seals the early requests of its next connections. */
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
 * Header of the upgrade request with the first message, in base64url. The site need not wait for
 * the reply to the request.
 */
export const helloHeader = 'x-saltbridge-hello';

/** Keying material of the TLS connection. Empty if the signatures do not contain it. */
export type Binding = Uint8Array;

/** First message, as it is sent. */
export interface SignedHello {
  readonly hello: Hello;
  /** Encoded hello, which the signatures cover. */
  readonly body: Uint8Array;
  /** Signature of the site, if the hello is bound to the TLS connection. */
  readonly signature: Uint8Array | undefined;
}

/** Encodes the first message. The site sends it. */
export function encodeHello(hello: Hello): Buffer {
  const { protocol, version, nonce, time, site, isBound, early } = hello;
  const given = early === undefined ? {} : { early };
  return packLocal({ protocol, version, nonce, time, site, isBound, ...given });
}

/** Adds the signature of the site to an encoded hello that is bound to the TLS connection. */
export function signHello(key: KeyObject, hello: Uint8Array, binding: Binding): Buffer {
  return packLocal({ body: hello, signature: signParts(key, helloPurpose, [hello, binding]) });
}

/** Returns an encoded hello without a signature, as it is sent. */
export function unsignedHello(hello: Uint8Array): Buffer {
  return packLocal({ body: hello });
}

/**
 * Decodes the first message.
 * @throws EdgeError ERR_SITE_MESSAGE if it is malformed, or bound to the TLS connection without a
 * signature
 */
export function readHello(bytes: Uint8Array): SignedHello {
  const { body, signature } = read(checkEnvelope, bytes);
  const hello = read(checkHello, body);
  if (hello.isBound === (signature !== undefined)) return { hello, body, signature };
  const text = 'a hello needs a signature if it is bound to its TLS connection, and only then';
  throw new EdgeError('ERR_SITE_MESSAGE', text);
}

/**
 * Returns a function that verifies the signature of a hello with a public key.
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

/** Encodes and signs the second message. The centre sends it. */
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
 * Decodes and verifies the second message.
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

/** Encodes and signs the third message. The site sends it if its hello has no signature. */
export function encodeProof(
  key: KeyObject,
  hello: Uint8Array,
  challenge: Uint8Array,
  binding: Binding,
): Buffer {
  return packLocal({ signature: signParts(key, sitePurpose, [hello, challenge, binding]) });
}

/**
 * Decodes the third message. Returns a function that verifies its signature with a public key.
 * @throws EdgeError ERR_SITE_MESSAGE if it is malformed
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
