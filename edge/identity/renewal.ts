/** Request with which a site replaces its key over its connection. */

import type { KeyObject } from 'node:crypto';
import Type, { type Static } from 'typebox';
import { Bytes } from '#store';
import { defineMessage } from '../link/link.ts';
import { isSignedBy, keyBytes, publicBytesOf, signParts } from './ed25519.ts';

const purpose = 'saltbridge site renewal 1';
const consentPurpose = 'saltbridge site renewal consent 1';

/**
 * Request of a site to replace its key. It is signed with the new key, and with the present key.
 * Therefore a proxy that ends the TLS connection cannot replace the key of a site by its own.
 */
export const renewKey = defineMessage({
  name: 'identity.renew',
  sender: 'site',
  class: 'order',
  params: Type.Object(
    {
      key: Type.Refine(Bytes, (value) => value.byteLength === keyBytes),
      /** Signature that was made with the new key. */
      proof: Bytes,
      /** Signature that was made with the present key. */
      consent: Bytes,
    },
    { additionalProperties: false },
  ),
  reply: Type.Object({}),
  maxBytes: 512,
});

/** Request of a site to replace its key. */
type Renewal = Readonly<Static<typeof renewKey.params>>;

/**
 * Returns the parameters of the request with which a site replaces its key.
 * @param key - new private key of the site
 * @param present - present private key of the site
 */
export function renewalOf(site: string, key: KeyObject, present: KeyObject): Renewal {
  const parts = [Buffer.from(site), publicBytesOf(key)];
  return {
    key: publicBytesOf(key),
    proof: signParts(key, purpose, parts),
    consent: signParts(present, consentPurpose, parts),
  };
}

/** Returns whether the request of a site for a new key is signed with this new key. */
export function verifyRenewal(site: string, { key, proof }: Renewal): boolean {
  return isSignedBy(key, purpose, [Buffer.from(site), key], proof);
}

/** Returns whether the request of a site for a new key is signed with its present key. */
export function isRenewalPermittedBy(
  present: Uint8Array,
  site: string,
  { key, consent }: Renewal,
): boolean {
  return isSignedBy(present, consentPurpose, [Buffer.from(site), key], consent);
}
