/**
 * Handshake between a site and its centre, without I/O. Both sides sign the whole transcript, which
 * contains their names, versions, clocks and random numbers, and the keying material of the TLS
 * connection.
 *
 * | step | sender | content                                            |
 * |------|--------|----------------------------------------------------|
 * | 1    | site   | hello: name, version, clock, random number         |
 * | 2    | centre | challenge: version, clock, random number, signature |
 * | 3    | site   | proof: signature                                   |
 * | 4    | centre | welcome                                            |
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

/** Version of the protocol. A connection uses the lower version of the two sides. */
export const protocolVersion = 1;

/** Maximum size of a message of the handshake, in bytes. */
export const maxHandshakeBytes = 1024;

/** Size of a random number, in bytes. */
export const nonceBytes = 32;

/**
 * Label with which both sides export keying material from the TLS connection [RFC 5705]. The
 * signatures cover this material.
 */
export const exporterLabel = 'EXPORTER-saltbridge-site-link';

const centrePurpose = 'saltbridge link centre 1';
const sitePurpose = 'saltbridge link site 1';

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
  },
  strict,
);
export type Hello = Readonly<Static<typeof Hello>>;

const Challenge = Type.Object({ ...shared, key: bytesOf(keyBytes) }, strict);
export type Challenge = Readonly<Static<typeof Challenge>>;

const SignedChallenge = Type.Object({ body: Bytes, signature: bytesOf(signatureBytes) }, strict);
const Proof = Type.Object({ signature: bytesOf(signatureBytes) }, strict);

const checkHello = compileSchema(Hello);
const checkChallenge = compileSchema(Challenge);
const checkSigned = compileSchema(SignedChallenge);
const checkProof = compileSchema(Proof);

const limits = { maxBytes: maxHandshakeBytes, maxDepth: 4, maxElements: 64 };

/**
 * Header of the upgrade request with the first message, in base64url. The site need not wait for
 * the reply to the request.
 */
export const helloHeader = 'x-saltbridge-hello';

/** Keying material of the TLS connection. Empty if the signatures do not contain it. */
export type Binding = Uint8Array;

/** Encodes the first message. The site sends it. */
export function encodeHello({ protocol, version, nonce, time, site, isBound }: Hello): Buffer {
  return packLocal({ protocol, version, nonce, time, site, isBound });
}

/** @throws EdgeError ERR_SITE_MESSAGE */
export function readHello(bytes: Uint8Array): Hello {
  return read(checkHello, bytes);
}

/** Encodes and signs the second message. The centre sends it. */
export function encodeChallenge(
  key: KeyObject,
  hello: Uint8Array,
  { protocol, version, nonce, time }: Omit<Challenge, 'key'>,
  binding: Binding,
): Buffer {
  const body = packLocal({ protocol, version, nonce, time, key: publicBytesOf(key) });
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

/** Encodes and signs the third message. The site sends it. */
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
