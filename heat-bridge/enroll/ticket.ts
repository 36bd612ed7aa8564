/**
 * Enrolment tickets: who may bring which minion's key, once, until when. A ticket is text that
 * anybody can read and only the bridge can make:
 *
 *     sbt1.<claims: base64url of JSON>.<Ed25519 signature of what stands before it: base64url>
 */
import { type KeyObject, sign, verify } from 'node:crypto';
import { Type } from '#typebox';
import { Compile } from '#typebox/compile';

/** What a ticket says. */
export interface TicketClaims {
  /** 22 characters that name the ticket and its enrolment. */
  readonly number: string;
  /** Id of the minion. */
  readonly minion: string;
  readonly project: string;
  /** What the cloud calls the machine. Absent: not bound to one. */
  readonly instance?: string;
  /** Address that it must be shown from. Absent: from anywhere. */
  readonly address?: string;
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
}

/** A ticket that was read; what it says is not to be believed before {@link isGenuine}. */
export interface ReadTicket {
  readonly claims: TicketClaims;
  readonly signed: Uint8Array;
  readonly signature: Uint8Array;
}

const version = 'sbt1';
const maxLength = 2048;
const form = /^(sbt1\.[A-Za-z0-9_-]+)\.([A-Za-z0-9_-]{86})$/;

const text = Type.String({ minLength: 1, maxLength: 255 });
const claimsCheck = Compile(
  Type.Object(
    {
      number: Type.String({ pattern: '^[A-Za-z0-9_-]{22}$' }),
      minion: text,
      project: text,
      instance: Type.Optional(text),
      address: Type.Optional(text),
      expiresAt: Type.Integer({ minimum: 0 }),
    },
    { additionalProperties: false },
  ),
);

/** Makes the text of a ticket. @param privateKey of Ed25519 */
export function signTicket(claims: TicketClaims, privateKey: KeyObject): string {
  const signed = `${version}.${Buffer.from(JSON.stringify(claims)).toString('base64url')}`;
  return `${signed}.${sign(null, Buffer.from(signed), privateKey).toString('base64url')}`;
}

/** Takes a ticket apart, cheaply: no signature is looked at. */
export function tryReadTicket(ticket: string): ReadTicket | undefined {
  if (ticket.length > maxLength) return undefined;
  const [, signed = '', signature = ''] = form.exec(ticket) ?? [];
  const claims = tryParse(signed.slice(version.length + 1));
  if (!claimsCheck.Check(claims)) return undefined;
  return {
    claims,
    signed: Buffer.from(signed),
    signature: Buffer.from(signature, 'base64url'),
  };
}

/** Whether the bridge made it. @param publicKey of Ed25519 */
export function isGenuine({ signed, signature }: ReadTicket, publicKey: KeyObject): boolean {
  return verify(null, signed, publicKey, signature);
}

function tryParse(claims: string): unknown {
  try {
    return JSON.parse(Buffer.from(claims, 'base64url').toString('utf8'));
  } catch {
    return undefined;
  }
}
