/** Whether a ticket is good for what it is shown for. */
import type { KeyObject } from 'node:crypto';
import { BridgeError } from '../errors.ts';
import type { Enrolment } from './enrolment.ts';
import { isGenuine, tryReadTicket } from './ticket.ts';

/** A ticket as somebody shows it. */
export interface ShownTicket {
  readonly ticket: string;
  /** Id that it is shown for. */
  readonly id: string;
  readonly instance?: string;
  /** Where the request came from. */
  readonly address: string;
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
export function enrolmentOf(ticket: string, rules: TicketRules): Enrolment {
  const read = tryReadTicket(ticket);
  const enrolment = read && rules.find(read.claims.number);
  if (read === undefined || enrolment === undefined) throw unknownTicket();
  // protection: genuine-tickets
  if (!isGenuine(read, rules.publicKey)) throw unknownTicket();
  return enrolment;
}

/** Of another bridge, made up, or of an enrolment that is long over. */
export function unknownTicket(): BridgeError {
  return new BridgeError('ERR_TICKET', 'this is no ticket of this bridge');
}

/**
 * Refuses what the ticket is not bound to.
 * @throws BridgeError ERR_TICKET_BOUND
 */
export function checkBinding(
  enrolment: Pick<Enrolment, 'id' | 'instance' | 'address'>,
  shown: Omit<ShownTicket, 'ticket'>,
): void {
  // protection: ticket-any-id
  if (enrolment.id !== shown.id) throw bound('another id');
  if (enrolment.instance !== undefined && enrolment.instance !== shown.instance) {
    throw bound('another instance');
  }
  if (enrolment.address !== undefined && enrolment.address !== plainAddress(shown.address)) {
    throw bound('another address');
  }
}

/**
 * Refuses a ticket that has had its effect, or its time.
 * @throws BridgeError ERR_TICKET_SPENT, ERR_TICKET_EXPIRED
 */
export function checkUse(enrolment: Enrolment, rules: TicketRules): void {
  const { number, state, fingerprint, ticketExpiresAt = 0 } = enrolment;
  const isUnused = state === 'open' || (state === 'failed' && fingerprint === undefined);
  if (!isUnused) throw spent();
  // protection: ticket-late
  if (rules.now() >= ticketExpiresAt) {
    throw new BridgeError('ERR_TICKET_EXPIRED', 'this ticket has expired');
  }
  if (state === 'failed') throw spent();
  // Open in a store that was put back.
  // protection: ticket-restored
  if (rules.isSpent(number)) throw spent();
}

function spent(): BridgeError {
  return new BridgeError('ERR_TICKET_SPENT', 'this ticket was used already');
}

function bound(what: string): BridgeError {
  return new BridgeError('ERR_TICKET_BOUND', `this ticket was made for ${what}`);
}

/** IPv4 as IPv6 sockets tell it is IPv4. */
function plainAddress(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, '');
}
