/** Tickets for joining a centre. The centre signs each ticket, and one site can use it once. */

import type { KeyObject } from 'node:crypto';
import Type, { type Static } from 'typebox';
import { compileSchema } from '#runtime';
import { EdgeError } from '../errors.ts';
import { isSignedBy, keyBytes, publicBytesOf, signParts } from './ed25519.ts';

const purpose = 'saltbridge site ticket 1';
const prefix = 'saltbridge-site-1';
/** Maximum length of the text of a ticket. */
const maxTicketLength = 4096;

const Payload = Type.Object(
  {
    /**
     * Random id of the ticket. The ticket is valid only if the registry of the centre contains this
     * id.
     */
    id: Type.String({ pattern: '^[A-Za-z0-9_-]{22}$' }),
    /** Name of the site. */
    name: Type.String({ minLength: 1, maxLength: 63 }),
    /** Address of the centre's HTTP API. */
    centre: Type.String({ minLength: 1, maxLength: 1024 }),
    /** SHA-256 digest of the root metadata that the site must trust, in hexadecimal. */
    root: Type.Optional(Type.String({ pattern: '^[0-9a-f]{64}$' })),
    /** Expiry of the ticket, in milliseconds since 1970. */
    expiresAt: Type.Integer({ minimum: 0 }),
  },
  { additionalProperties: false },
);
const checkPayload = compileSchema(Payload);

/** Content of a ticket, except the key of the centre and its signature. */
export type TicketPayload = Readonly<Static<typeof Payload>>;

/** Verified content of a ticket. */
export interface Ticket extends TicketPayload {
  /** Public online key of the centre: 32 bytes of Ed25519. */
  readonly centreKey: Uint8Array;
}

/** Signs a ticket, and returns its text. */
export function writeTicket(key: KeyObject, payload: TicketPayload): string {
  const body = Buffer.from(JSON.stringify(payload));
  const publicKey = publicBytesOf(key);
  const signature = signParts(key, purpose, [publicKey, body]);
  return [prefix, ...[publicKey, body, signature].map((it) => it.toString('base64url'))].join('.');
}

/**
 * Reads a ticket and verifies its signature. Does not check whether the ticket has expired.
 * @throws EdgeError ERR_SITE_TICKET
 */
export function readTicket(text: string): Ticket {
  const [head, ...parts] = text.trim().split('.');
  const [centreKey, body, signature, ...rest] = parts.map((it) => Buffer.from(it, 'base64url'));
  const isWhole = head === prefix && rest.length === 0 && text.length <= maxTicketLength;
  if (!isWhole || centreKey?.length !== keyBytes || body === undefined || signature === undefined) {
    throw new EdgeError(
      'ERR_SITE_TICKET',
      'the text is not a ticket; copy the whole output of `saltbridge site ticket`',
    );
  }
  if (!isSignedBy(centreKey, purpose, [centreKey, body], signature)) {
    throw new EdgeError('ERR_SITE_TICKET', 'the ticket was altered: its signature does not match');
  }
  try {
    return { ...checkPayload.Parse(JSON.parse(body.toString('utf8'))), centreKey };
  } catch (cause) {
    throw new EdgeError('ERR_SITE_TICKET', 'the ticket is malformed', { cause });
  }
}
