/**
 * Enrolment tickets: who may bring which minion's key, once, until when. A ticket is text that
 * anybody can read and only the bridge can make:
 *
 *     sbt1.<claims: base64url of JSON>.<Ed25519 signature of what stands before it: base64url>
 */

import {
  createPrivateKey,
  createPublicKey,
  type KeyObject,
  randomBytes,
  sign,
  verify,
} from 'node:crypto';
import { Type } from 'typebox';
import { compileSchema, readTextIfPresent, writeFileAtomically } from '#runtime';
import { BridgeError } from '../errors.ts';
import type { Enrolment } from './enrolment.ts';

/** A ticket that was read; what it says is not to be believed before {@link verifyTicket}. */
export interface ParsedTicket {
  readonly claims: TicketClaims;
  readonly signed: Uint8Array;
  readonly signature: Uint8Array;
}

const ticketVersion = 'sbt1';

const maxTicketLength = 2048;

const ticketForm = /^(sbt1\.[A-Za-z0-9_-]+)\.([A-Za-z0-9_-]{86})$/;

const ClaimText = Type.String({ minLength: 1, maxLength: 255 });

/** Content of a ticket. */
const TicketClaims = Type.Object(
  {
    /** 22 characters that name the ticket and its enrolment. */
    number: Type.String({ pattern: '^[A-Za-z0-9_-]{22}$' }),
    /** Id of the minion. */
    minion: ClaimText,
    project: ClaimText,
    /** Name of the machine in the cloud. Absent: not bound to one. */
    instance: Type.Optional(ClaimText),
    /** Address that it must be shown from. Absent: from anywhere. */
    address: Type.Optional(ClaimText),
    /** Milliseconds since 1970. */
    expiresAt: Type.Integer({ minimum: 0 }),
  },
  { additionalProperties: false },
);
const claimsCheck = compileSchema(TicketClaims);

/** Content of a ticket. */
export type TicketClaims = Readonly<Type.Static<typeof TicketClaims>>;

/** Makes the text of a ticket. @param privateKey of Ed25519 */
export function signTicket(claims: TicketClaims, privateKey: KeyObject): string {
  const signed = `${ticketVersion}.${Buffer.from(JSON.stringify(claims)).toString('base64url')}`;
  return `${signed}.${sign(null, Buffer.from(signed), privateKey).toString('base64url')}`;
}

/** Takes a ticket apart, cheaply: no signature is looked at. */
export function tryParseTicket(ticket: string): ParsedTicket | undefined {
  if (ticket.length > maxTicketLength) return undefined;
  const [, signed = '', signature = ''] = ticketForm.exec(ticket) ?? [];
  const claims = tryParseClaims(signed.slice(ticketVersion.length + 1));
  if (!claimsCheck.Check(claims)) return undefined;
  return {
    claims,
    signed: Buffer.from(signed),
    signature: Buffer.from(signature, 'base64url'),
  };
}

/** Whether the bridge made it. @param publicKey of Ed25519 */
export function verifyTicket({ signed, signature }: ParsedTicket, publicKey: KeyObject): boolean {
  return verify(null, signed, publicKey, signature);
}

function tryParseClaims(claims: string): unknown {
  try {
    return JSON.parse(Buffer.from(claims, 'base64url').toString('utf8'));
  } catch {
    return undefined;
  }
}

/** A ticket as somebody shows it. */
export interface ShownTicket {
  readonly ticket: string;
  /** Id that it is shown for. */
  readonly id: string;
  readonly instance?: string;
  /** Where the request came from. */
  readonly address: string;
  /** What a metadata agent has found out of the machine. */
  readonly identity?: MachineIdentity | undefined;
}

/** A machine as the cloud knows it. */
export interface MachineIdentity {
  readonly instance: string;
  readonly project: string;
}

/** What tickets are held against. */
export interface TicketRules {
  readonly publicKey: KeyObject;
  readonly find: (number: string) => Enrolment | undefined;
  readonly isSpent: (number: string) => boolean;
  readonly now: () => number;
}

/**
 * The enrolment that the bridge made a ticket for. Its number is looked up before any signature is
 * verified, so that strangers cost nothing [THREATS B-12].
 * @throws BridgeError ERR_TICKET for one that is not the bridge's, or is of another store
 */
export function findEnrolmentOfTicket(ticket: string, rules: TicketRules): Enrolment {
  const read = tryParseTicket(ticket);
  const enrolment = read && rules.find(read.claims.number);
  if (read === undefined || enrolment === undefined) throw unknownTicketError();
  if (!verifyTicket(read, rules.publicKey)) throw unknownTicketError();
  return enrolment;
}

/** Of another bridge, made up, or of an enrolment that is long over. */
export function unknownTicketError(): BridgeError {
  return new BridgeError('ERR_TICKET', 'this is no ticket of this bridge');
}

/**
 * Refuses what the ticket is not bound to.
 * @throws BridgeError ERR_TICKET_BOUND
 */
export function checkTicketBinding(
  enrolment: Pick<Enrolment, 'id' | 'instance' | 'address' | 'project'>,
  shown: Omit<ShownTicket, 'ticket'>,
): void {
  if (enrolment.id !== shown.id) throw ticketBoundError('another id');
  if (shown.identity !== undefined && shown.identity.project !== enrolment.project) {
    throw ticketBoundError('another project');
  }
  // What a machine says of itself counts only where nobody has found it out.
  const { instance } = shown.identity ?? shown;
  if (enrolment.instance !== undefined && enrolment.instance !== instance) {
    throw ticketBoundError('another instance');
  }
  if (enrolment.address !== undefined && enrolment.address !== unmapIpv4(shown.address)) {
    throw ticketBoundError('another address');
  }
}

/**
 * Refuses a ticket that has had its effect, or its time.
 * @throws BridgeError ERR_TICKET_SPENT, ERR_TICKET_EXPIRED
 */
export function checkTicketUnused(enrolment: Enrolment, rules: TicketRules): void {
  const { number, state, fingerprint, ticketExpiresAt = 0 } = enrolment;
  const isUnused = state === 'open' || (state === 'failed' && fingerprint === undefined);
  if (!isUnused) throw ticketUsedError();
  if (rules.now() >= ticketExpiresAt) {
    throw new BridgeError('ERR_TICKET_EXPIRED', 'this ticket has expired');
  }
  if (state === 'failed') throw ticketUsedError();
  // Open in a store that was put back.
  if (rules.isSpent(number)) throw ticketUsedError();
}

function ticketUsedError(): BridgeError {
  return new BridgeError('ERR_TICKET_SPENT', 'this ticket was used already');
}

function ticketBoundError(what: string): BridgeError {
  return new BridgeError('ERR_TICKET_BOUND', `this ticket was made for ${what}`);
}

/** IPv4 as IPv6 sockets tell it is IPv4. */
function unmapIpv4(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, '');
}

/** An Ed25519 pair. */
export interface TicketKey {
  readonly publicKey: KeyObject;
  readonly privateKey: KeyObject;
}

const seedLength = 32;

/** What stands before the seed in PKCS #8 [RFC 8410]. */
const pkcs8Prefix = Buffer.from('302e020100300506032b657004220420', 'hex');

/**
 * Reads the key (0600, 44 characters of base64), or makes it.
 * @throws BridgeError ERR_TICKET_KEY for a file that holds none
 */
export async function openTicketKey(file: string): Promise<TicketKey> {
  const text = await readTextIfPresent(file);
  if (text === undefined) {
    const seed = randomBytes(seedLength);
    await writeFileAtomically(file, `${seed.toString('base64')}\n`, 0o600);
    return ticketKeyOf(seed);
  }
  const seed = Buffer.from(text.trim(), 'base64');
  if (seed.length !== seedLength) {
    throw new BridgeError('ERR_TICKET_KEY', `${file}: expected ${seedLength} bytes in base64`);
  }
  return ticketKeyOf(seed);
}

/** @param seed - 32 bytes */
export function ticketKeyOf(seed: Uint8Array): TicketKey {
  const der = Buffer.concat([pkcs8Prefix, seed]);
  const privateKey = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
  return { privateKey, publicKey: createPublicKey(privateKey) };
}
