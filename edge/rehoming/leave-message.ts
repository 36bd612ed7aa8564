/**
 * Request of `POST /site/v1/left`, with which a site notifies its former centre that it has changed
 * to another centre. When the site changes its centre, it signs the request with the key that the
 * former centre knows.
 */

import type { KeyObject } from 'node:crypto';
import Type, { type Static } from 'typebox';
import { compileSchema } from '#runtime';
import { isSignedBy, signParts } from '../identity/ed25519.ts';

const purpose = 'saltbridge rehoming left 1';

const LeaveRequest = Type.Object(
  {
    /** Name of the site. */
    name: Type.String({ minLength: 1, maxLength: 63 }),
    /**
     * Time of issue of the statement by which the site has changed its centre, in milliseconds
     * since 1970.
     */
    issuedAt: Type.Integer({ minimum: 0, maximum: 2 ** 48 }),
    /** Signature of the site, in base64url. */
    signature: Type.String({ minLength: 86, maxLength: 86 }),
  },
  { additionalProperties: false },
);

/** Signed notification that a site has left its centre. */
export type LeaveRequest = Readonly<Static<typeof LeaveRequest>>;
export const checkLeaveRequest = compileSchema(LeaveRequest);

/**
 * Returns the fields that a site signs when it notifies a centre that it has left.
 * @param centre - id of the centre
 */
function partsOf(name: string, centre: string, issuedAt: number): readonly Uint8Array[] {
  return [name, centre, String(issuedAt)].map((text) => Buffer.from(text));
}

/**
 * Signs a notification with the present key of the site, and returns the signature in base64url.
 * @param centre - id of the centre that the site leaves
 */
export function signLeave(key: KeyObject, name: string, centre: string, issuedAt: number): string {
  return signParts(key, purpose, partsOf(name, centre, issuedAt)).toString('base64url');
}

/**
 * Returns whether a notification was signed with this key.
 * @param centre - id of the centre that the site leaves
 */
export function isLeaveSignedBy(
  publicKey: Uint8Array,
  { name, issuedAt, signature }: LeaveRequest,
  centre: string,
): boolean {
  const bytes = Buffer.from(signature, 'base64url');
  return isSignedBy(publicKey, purpose, partsOf(name, centre, issuedAt), bytes);
}
