/** Messages about the secrets of a site. */

import { createHash, type KeyObject } from 'node:crypto';
import Type from 'typebox';
import { Bytes } from '#store';
import { Sha256 } from '../bundles/manifest.ts';
import { isSignedBy, signatureBytes, signParts } from '../identity/ed25519.ts';
import { sealKeyBytes } from '../identity/sealed-box.ts';
import { defineMessage } from '../link/link.ts';

/**
 * Maximum size of the secrets of a site, in bytes of JSON. Secrets of this size fit into one
 * message.
 */
export const maxSecretBytes = 49_152;

const strict = { additionalProperties: false };

/**
 * Text that the centre signs together with a site's secrets, so that the signature is not valid for
 * any other purpose.
 */
export const secretsPurpose = 'saltbridge site secrets 1';

/**
 * Text that a site signs together with its request for secrets, so that the signature is not valid
 * for any other purpose.
 */
const requestPurpose = 'saltbridge site secrets request 1';

/** Size of the random number in a request, in bytes. */
export const nonceBytes = 16;

/**
 * Request of a site for its secrets. The centre encrypts the secrets for the key in the request. The
 * site signs this key with its own key, so a proxy that ends the TLS connection cannot replace it.
 * The centre signs the reply together with the random number in the request, so the site cannot
 * accept the reply to an earlier request.
 */
export const secretsMessage = defineMessage({
  name: 'secrets.read',
  sender: 'site',
  class: 'order',
  params: Type.Object(
    {
      sealKey: Type.Refine(Bytes, (value) => value.byteLength === sealKeyBytes),
      nonce: Type.Refine(Bytes, (value) => value.byteLength === nonceBytes),
      /** Digest of the secrets that the site has. */
      have: Type.Optional(Sha256),
      /** Signature of the site, see {@link signSecretsRequest}. */
      proof: Type.Refine(Bytes, (value) => value.byteLength === signatureBytes),
    },
    strict,
  ),
  reply: Type.Object({
    /** Digest of the present secrets. Absent: the centre has no secrets for this site. */
    digest: Type.Optional(Sha256),
    /**
     * Encrypted secrets. Absent if the site already has these secrets, or the centre has none for
     * this site.
     */
    box: Type.Optional(Bytes),
    /** Time at which the centre began to read the secrets, in milliseconds since 1970. */
    at: Type.Integer({ minimum: 0, maximum: 2 ** 48 }),
    signature: Bytes,
  }),
  maxBytes: 512,
});

/** Message with which the centre notifies a site that its secrets may have changed. */
export const secretsChangedMessage = defineMessage({
  name: 'secrets.changed',
  sender: 'centre',
  class: 'order',
  params: Type.Object({}, strict),
  reply: Type.Object({}),
});

/** Request of a site for its secrets, without its signature. */
interface SecretsRequest {
  readonly sealKey: Uint8Array;
  readonly nonce: Uint8Array;
}

/** Signs a request for secrets with the key of the site. */
export function signSecretsRequest(
  key: KeyObject,
  site: string,
  { sealKey, nonce }: SecretsRequest,
): Buffer {
  return signParts(key, requestPurpose, [Buffer.from(site), sealKey, nonce]);
}

/** Returns whether the key of a site has signed its request for secrets. */
export function isRequestSignedBy(
  publicKey: Uint8Array,
  site: string,
  { sealKey, nonce, proof }: SecretsRequest & { readonly proof: Uint8Array },
): boolean {
  return isSignedBy(publicKey, requestPurpose, [Buffer.from(site), sealKey, nonce], proof);
}

/**
 * Returns a digest of a site's secrets together with the name of the site. Two sites with equal
 * secrets therefore have different digests.
 */
export function digestOfSecrets(site: string, content: Uint8Array): string {
  return createHash('sha256').update(`${site}\n`).update(content).digest('hex');
}

/** Content of a reply without its signature. */
export interface SecretsReply {
  readonly digest?: string | undefined;
  readonly box?: Uint8Array | undefined;
  readonly at: number;
}

/** Returns the parts of a reply that the centre signs, in the order of the signature. */
export function signedSecrets(
  site: string,
  nonce: Uint8Array,
  { digest = '', box = new Uint8Array(0), at }: SecretsReply,
): readonly Uint8Array[] {
  return [Buffer.from(site), nonce, Buffer.from(digest), box, Buffer.from(`${at}`)];
}
