/**
 * Enrolment tickets. With a ticket, one minion can have its key accepted, once, until the ticket
 * expires. Anyone can read the text of a ticket, but only the bridge can sign it:
 *
 *     sbt1.<claims: base64url of JSON>.<Ed25519 signature of the preceding text: base64url>
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

/** Parsed ticket. Do not trust its claims before {@link verifyTicket} has accepted it. */
export interface ParsedTicket {
  readonly claims: TicketClaims;
  readonly signed: Uint8Array;
  readonly signature: Uint8Array;
}

const ticketVersion = 'sbt1';

const maxTicketLength = 2048;

const ticketForm = /^(sbt1\.[A-Za-z0-9_-]+)\.([A-Za-z0-9_-]{86})$/;

const ClaimText = Type.String({ minLength: 1, maxLength: 255 });

/** Signed content of a ticket: the minion, and the machine that may use the ticket. */
const TicketClaims = Type.Object(
  {
    /** Number of the ticket and of its enrolment: an identifier of 22 characters. */
    number: Type.String({ pattern: '^[A-Za-z0-9_-]{22}$' }),
    /** Id of the minion. */
    minion: ClaimText,
    project: ClaimText,
    /** Name of the machine in the cloud. Absent if the ticket is valid for any machine. */
    instance: Type.Optional(ClaimText),
    /** Address from which the ticket must be used. Absent if it may be used from any address. */
    address: Type.Optional(ClaimText),
    /** Expiry, in milliseconds since 1970. */
    expiresAt: Type.Integer({ minimum: 0 }),
  },
  { additionalProperties: false },
);
const claimsCheck = compileSchema(TicketClaims);

/** Claims of a ticket. */
export type TicketClaims = Readonly<Type.Static<typeof TicketClaims>>;

/**
 * Signs a ticket, and returns its text.
 * @param privateKey - Ed25519 key
 */
export function signTicket(claims: TicketClaims, privateKey: KeyObject): string {
  const signed = `${ticketVersion}.${Buffer.from(JSON.stringify(claims)).toString('base64url')}`;
  return `${signed}.${sign(null, Buffer.from(signed), privateKey).toString('base64url')}`;
}

/** Parses a ticket without verifying its signature. Returns `undefined` if it is malformed. */
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

/**
 * Whether the signature of a ticket is that of the bridge.
 * @param publicKey - Ed25519 key
 */
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

/** Ticket that a machine presents, with facts about the machine. */
export interface ShownTicket {
  readonly ticket: string;
  /** Minion id that the machine uses. */
  readonly id: string;
  readonly instance?: string;
  /** Address from which the request was sent. */
  readonly address: string;
  /** Identity of the machine, if a metadata agent has determined it. */
  readonly identity?: MachineIdentity | undefined;
}

/** Machine as the cloud identifies it. */
export interface MachineIdentity {
  readonly instance: string;
  readonly project: string;
}

/** Objects that the verification of tickets needs. */
export interface TicketRules {
  readonly publicKey: KeyObject;
  readonly find: (number: string) => Enrolment | undefined;
  readonly isSpent: (number: string) => boolean;
  readonly now: () => number;
}

/**
 * Returns the enrolment of a ticket. The number of the ticket is looked up before the signature is
 * verified, so that requests with forged tickets cost little [THREATS B-12].
 * @throws BridgeError ERR_TICKET if this bridge did not issue the ticket, or if its store has no
 * such enrolment
 */
export function findEnrolmentOfTicket(ticket: string, rules: TicketRules): Enrolment {
  const read = tryParseTicket(ticket);
  const enrolment = read && rules.find(read.claims.number);
  if (read === undefined || enrolment === undefined) throw unknownTicketError();
  if (!verifyTicket(read, rules.publicKey)) throw unknownTicketError();
  return enrolment;
}

/**
 * Returns the error for an unknown ticket: it is forged, another bridge issued it, or its enrolment
 * was deleted long after its end.
 */
export function unknownTicketError(): BridgeError {
  return new BridgeError(
    'ERR_TICKET',
    'ticket rejected: this bridge did not issue it, or its enrolment has been deleted',
  );
}

/**
 * Checks that a ticket was issued for this machine.
 * @throws BridgeError ERR_TICKET_BOUND if it was issued for another machine
 */
export function checkTicketBinding(
  enrolment: Pick<Enrolment, 'id' | 'instance' | 'address' | 'project'>,
  shown: Omit<ShownTicket, 'ticket'>,
): void {
  if (enrolment.id !== shown.id) throw ticketBoundError('another id');
  if (shown.identity !== undefined && shown.identity.project !== enrolment.project) {
    throw ticketBoundError('another project');
  }
  // Without a metadata agent, use the instance name that the machine itself states.
  const { instance } = shown.identity ?? shown;
  if (enrolment.instance !== undefined && enrolment.instance !== instance) {
    throw ticketBoundError('another instance');
  }
  if (enrolment.address !== undefined && enrolment.address !== unmapIpv4(shown.address)) {
    throw ticketBoundError('another address');
  }
}

/**
 * Checks that the ticket is neither used nor expired.
 * @throws BridgeError ERR_TICKET_SPENT, ERR_TICKET_EXPIRED
 */
export function checkTicketUnused(enrolment: Enrolment, rules: TicketRules): void {
  const { number, state, fingerprint, ticketExpiresAt = 0 } = enrolment;
  const isUnused = state === 'open' || (state === 'failed' && fingerprint === undefined);
  if (!isUnused) throw ticketUsedError();
  if (rules.now() >= ticketExpiresAt) {
    throw new BridgeError('ERR_TICKET_EXPIRED', 'the ticket has expired; create a new enrolment');
  }
  if (state === 'failed') throw ticketUsedError();
  // In a store that was restored from a backup, the enrolment of a used ticket can be open.
  if (rules.isSpent(number)) throw ticketUsedError();
}

function ticketUsedError(): BridgeError {
  return new BridgeError('ERR_TICKET_SPENT', 'the ticket has already been used');
}

function ticketBoundError(what: string): BridgeError {
  return new BridgeError('ERR_TICKET_BOUND', `the ticket was issued for ${what}`);
}

/** Converts an IPv4-mapped IPv6 address to IPv4. */
function unmapIpv4(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, '');
}

/** Ed25519 key pair that signs tickets. */
export interface TicketKey {
  readonly publicKey: KeyObject;
  readonly privateKey: KeyObject;
}

const seedLength = 32;

/** Bytes that precede the seed of an Ed25519 key in PKCS #8 [RFC 8410]. */
const pkcs8Prefix = Buffer.from('302e020100300506032b657004220420', 'hex');

/**
 * Reads the key pair from a file (mode 0600, 44 characters of base64). If there is no file, creates
 * it with a new key.
 * @throws BridgeError ERR_TICKET_KEY if the file has no valid key
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
    throw new BridgeError(
      'ERR_TICKET_KEY',
      `${file}: invalid ticket key: must be ${seedLength} bytes in base64`,
    );
  }
  return ticketKeyOf(seed);
}

/**
 * Returns the key pair for a seed.
 * @param seed - 32 bytes
 */
export function ticketKeyOf(seed: Uint8Array): TicketKey {
  const der = Buffer.concat([pkcs8Prefix, seed]);
  const privateKey = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
  return { privateKey, publicKey: createPublicKey(privateKey) };
}
