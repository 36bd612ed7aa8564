/** Request with which a site replaces its key over its connection. */

import type { KeyObject } from 'node:crypto';
import Type from 'typebox';
import { Bytes } from '#store';
import { defineMessage } from '../link/link.ts';
import { isSignedBy, keyBytes, publicBytesOf, signParts } from './ed25519.ts';

const purpose = 'saltbridge site renewal 1';

/** Request of a site to replace its key. It is signed with the new key. */
export const renewKey = defineMessage({
  name: 'identity.renew',
  sender: 'site',
  class: 'order',
  params: Type.Object(
    {
      key: Type.Refine(Bytes, (value) => value.byteLength === keyBytes),
      proof: Bytes,
    },
    { additionalProperties: false },
  ),
  reply: Type.Object({}),
  maxBytes: 512,
});

/**
 * Returns the parameters of the request with which a site replaces its key.
 * @param key - new private key of the site
 */
export function renewalOf(site: string, key: KeyObject): { key: Uint8Array; proof: Uint8Array } {
  return {
    key: publicBytesOf(key),
    proof: signParts(key, purpose, [Buffer.from(site), publicBytesOf(key)]),
  };
}

/** Returns whether the request of a site for a new key is signed with this new key. */
export function verifyRenewal(site: string, key: Uint8Array, proof: Uint8Array): boolean {
  return isSignedBy(key, purpose, [Buffer.from(site), key], proof);
}
