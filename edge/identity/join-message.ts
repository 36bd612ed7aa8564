/** Request and reply of `POST /site/v1/join`. */

import { createHash } from 'node:crypto';
import Type, { type Static } from 'typebox';
import { compileSchema } from '#runtime';

/**
 * Text that a site signs together with its ticket, so that the signature is not valid for any other
 * purpose.
 */
export const joinPurpose = 'saltbridge site join 1';

/**
 * Text that the centre signs together with its reply, so that the signature is not valid for any
 * other purpose.
 */
const replyPurpose = 'saltbridge site joined 1';

/** Maximum size of the root metadata in a reply, in bytes. */
export const maxRootBytes = 262_144;

const JoinRequest = Type.Object(
  {
    ticket: Type.String({ minLength: 1, maxLength: 4096 }),
    /** Public key of the site, in base64url. */
    key: Type.String({ minLength: 43, maxLength: 43 }),
    /** Signature of the ticket with the key of the site, in base64url. */
    proof: Type.String({ minLength: 86, maxLength: 86 }),
  },
  { additionalProperties: false },
);
export type JoinRequest = Readonly<Static<typeof JoinRequest>>;
export const checkJoinRequest = compileSchema(JoinRequest);

const JoinReply = Type.Object(
  {
    name: Type.String(),
    /** TUF root metadata of the centre, in base64. Absent if the centre has none. */
    root: Type.Optional(Type.String({ maxLength: Math.ceil(maxRootBytes / 3) * 4 })),
    signature: Type.String({ minLength: 86, maxLength: 86 }),
  },
  { additionalProperties: false },
);
export type JoinReply = Readonly<Static<typeof JoinReply>>;
export const checkJoinReply = compileSchema(JoinReply);

/**
 * Returns the content that the centre signs when it accepts a ticket. It consists of the purpose of
 * the signature, the ticket, the key, and a digest of the root metadata.
 */
export function signedReply(
  ticket: string,
  key: Uint8Array,
  root: Uint8Array | undefined,
): readonly [purpose: string, parts: readonly Uint8Array[]] {
  const digest = createHash('sha256')
    .update(root ?? Buffer.alloc(0))
    .digest();
  return [replyPurpose, [Buffer.from(ticket), key, digest]];
}
