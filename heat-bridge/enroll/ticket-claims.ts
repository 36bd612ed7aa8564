/** Handles requests of machines with a ticket: claims and reports of failure. */

import Type, { type Static } from 'typebox';
import type { OpenExtension } from '#master';
import { BridgeError } from '../errors.ts';
import { type Enrolment, fingerprintOf, tryParseFingerprint } from './enrolment.ts';
import type { EnrollOptions } from './enrolment-options.ts';
import type { EnrolmentParts, EnrolmentTransitions } from './enrolment-transitions.ts';
import {
  checkTicketBinding,
  checkTicketUnused,
  findEnrolmentOfTicket,
  type MachineIdentity,
  type ShownTicket,
  type TicketRules,
  unknownTicketError,
} from './tickets.ts';
import { ticketGrain } from './user-data.ts';

type OfferedKey = Parameters<KeyAcceptanceHook>[0];

type KeyAcceptanceHook = NonNullable<OpenExtension['advice']>;

const ticketFields = {
  ticket: Type.String({ maxLength: 2048 }),
  id: Type.String({ minLength: 1, maxLength: 255 }),
  instance: Type.Optional(Type.String({ maxLength: 255 })),
};
const strict = { additionalProperties: false };

/** Body of a claim: the request of a machine to accept its key. */
export const ClaimBody = Type.Object(
  {
    ...ticketFields,
    /** SHA-256 of the machine's public key, as `salt-key` or `sha256sum` prints it. */
    fingerprint: Type.String({ maxLength: 128 }),
  },
  strict,
);
/** Body of a report that a machine has failed to become a minion. */
export const FailureBody = Type.Object(
  { ...ticketFields, reason: Type.String({ maxLength: 4096 }) },
  strict,
);

export interface TicketClaimParts extends EnrolmentParts {
  readonly transitions: EnrolmentTransitions;
  readonly rules: TicketRules;
  /**
   * Options of enrolment. Only `takesGrains` is used: whether minions may send tickets as a grain.
   */
  readonly options: Pick<EnrollOptions, 'takesGrains'>;
}

const maxReasonLength = 500;

export class TicketClaimHandler {
  readonly #parts: TicketClaimParts;

  constructor(parts: TicketClaimParts) {
    this.#parts = parts;
  }

  /**
   * Accepts a key for an id, by its fingerprint. Resolves when the acceptance is durable.
   * @throws BridgeError ERR_TICKET, ERR_TICKET_BOUND, ERR_TICKET_EXPIRED, ERR_TICKET_SPENT,
   * ERR_ENROLL_TAKEN, ERR_ENROLL_ARGS
   */
  async claim(claim: ShownTicket & Static<typeof ClaimBody>): Promise<Enrolment> {
    const { transitions, rules } = this.#parts;
    const fingerprint = tryParseFingerprint(claim.fingerprint);
    if (fingerprint === undefined) {
      throw new BridgeError('ERR_ENROLL_ARGS', 'fingerprint: must be a SHA-256 in 64 hex digits');
    }
    const claimed = findEnrolmentOfTicket(claim.ticket, rules);
    checkTicketBinding(claimed, claim);
    return transitions.exclusive(claimed, async (enrolment) => {
      if (enrolment === undefined) throw unknownTicketError();
      this.#checkUse(enrolment, fingerprint);
      this.#checkKey(enrolment.id, fingerprint);
      const { identity } = claim;
      if (identity === undefined) return transitions.accept(enrolment, fingerprint);
      this.#checkInstance(enrolment, identity);
      return transitions.accept({ ...enrolment, instance: identity.instance }, fingerprint);
    });
  }

  /**
   * Marks the enrolment of a machine as failed, if the machine has not signed in. The ticket
   * authenticates the machine.
   * @throws BridgeError ERR_TICKET, ERR_TICKET_BOUND, ERR_TICKET_SPENT
   */
  async report({ reason, ...shown }: ShownTicket & Static<typeof FailureBody>): Promise<void> {
    const { transitions, rules } = this.#parts;
    const reported = findEnrolmentOfTicket(shown.ticket, rules);
    // Do not require the instance name, because a failing machine may not know it.
    const { instance: _, ...binding } = reported;
    checkTicketBinding(shown.identity === undefined ? binding : reported, shown);
    await transitions.exclusive(reported, async (enrolment) => {
      if (enrolment?.state !== 'open' && enrolment?.state !== 'accepted') {
        throw new BridgeError(
          'ERR_TICKET_SPENT',
          'the enrolment of this ticket has ended, or its minion has already signed in',
        );
      }
      await transitions.fail(enrolment, toSingleLine(reason).slice(0, maxReasonLength));
    });
  }

  /**
   * Decides whether to accept a key that a minion presents when it signs in. The master does not
   * call this function if the key is already accepted for the id.
   */
  readonly advise: KeyAcceptanceHook = async (offered) => {
    const known = this.#parts.repository.liveOf(offered.id);
    if (known === undefined) return undefined;
    const fingerprint = fingerprintOf(offered.publicKey);
    const ticket = this.#parts.options.takesGrains ? offered.grains[ticketGrain] : undefined;
    if (typeof ticket === 'string' && known.by === 'grain') {
      return this.#takeGrain(known, ticket, fingerprint, offered);
    }
    if (known.state === 'open') return 'wait';
    if (known.state !== 'accepted') return undefined;
    if (fingerprint === known.fingerprint) return 'accept';
    this.#alarm(
      known,
      'a minion signed in with a key other than the one that was claimed with the ticket',
    );
    return 'deny';
  };

  async #takeGrain(
    known: Enrolment,
    ticket: string,
    fingerprint: string,
    { id, address }: OfferedKey,
  ): Promise<'accept' | 'deny' | 'wait' | undefined> {
    const { transitions, rules } = this.#parts;
    if (known.state === 'accepted' && known.fingerprint === fingerprint) return 'accept';
    try {
      const enrolment = findEnrolmentOfTicket(ticket, rules);
      checkTicketBinding(enrolment, { id, address });
      if (enrolment.state === 'accepted' || enrolment.state === 'signed-in') {
        // Two machines have presented keys for the ticket, and the master cannot determine which
        // one is right.
        const reason =
          'two machines presented different keys with the same ticket; the key that was accepted first is now rejected';
        await transitions.quarantine(enrolment, reason);
        this.#alarm(enrolment, reason);
        return 'deny';
      }
      checkTicketUnused(enrolment, rules);
      await transitions.accept(enrolment, fingerprint);
      return 'accept';
    } catch (error) {
      if (error instanceof BridgeError) return known.state === 'open' ? 'wait' : undefined;
      throw error;
    }
  }

  #checkUse(enrolment: Enrolment, fingerprint: string): void {
    try {
      checkTicketUnused(enrolment, this.#parts.rules);
    } catch (error) {
      const isOther = enrolment.fingerprint !== undefined && enrolment.fingerprint !== fingerprint;
      if (isOther) this.#alarm(enrolment, 'the ticket was used a second time, with another key');
      throw error;
    }
  }

  /**
   * Checks that the id has no other accepted or rejected key. A ticket must not replace an accepted
   * or rejected key.
   * @throws BridgeError ERR_ENROLL_TAKEN
   */
  #checkKey(id: string, fingerprint: string): void {
    const held = this.#parts.admission.keyOf(id);
    if (held === undefined || held.state === 'pending') return;
    if (held.state === 'accepted' && held.fingerprint === fingerprint) return;
    throw new BridgeError(
      'ERR_ENROLL_TAKEN',
      `the minion id already has another key, which is ${held.state}`,
    );
  }

  /**
   * Checks that an instance, which a metadata agent has identified, is not enrolled as another
   * minion.
   * @throws BridgeError ERR_ENROLL_TAKEN
   */
  #checkInstance({ number }: Enrolment, { instance, project }: MachineIdentity): void {
    for (const other of this.#parts.repository.liveOfInstance(instance)) {
      const isMinion = other.state === 'accepted' || other.state === 'signed-in';
      if (isMinion && other.number !== number && other.project === project) {
        throw new BridgeError(
          'ERR_ENROLL_TAKEN',
          'this instance is already enrolled as another minion',
        );
      }
    }
  }

  #alarm(enrolment: Enrolment, detail: string): void {
    this.#parts.tell({ what: 'alarm', enrolment, detail });
  }
}

/** Converts text from a machine to one line without control characters. */
function toSingleLine(text: string): string {
  return text.replace(/[\p{C}\p{Z}]+/gu, ' ').trim();
}
