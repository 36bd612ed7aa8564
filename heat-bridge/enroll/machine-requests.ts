/** Claims and reports of machines with a ticket, as they come: by themselves, or by an agent. */

import { AuthenticationError } from '#master';
import { compileSchema, TokenBuckets } from '#runtime';
import { BridgeError } from '../errors.ts';
import { parseForm } from '../http/route-schema.ts';
import type { Enrolment } from './enrolment.ts';
import { ClaimBody, FailureBody, type TicketClaimHandler } from './ticket-claims.ts';
import type { MachineIdentity } from './tickets.ts';

/** Refused claims and reports of one address; more are refused unread. */
const refusedTicketRate = { perSecond: 1, burst: 60 };
/** Bytes of a body: a ticket and some words. */
export const machineBodyLimit = 8192;

const claimForm = compileSchema(ClaimBody);
const failureForm = compileSchema(FailureBody);

/** Where a request came from. */
interface MachineOrigin {
  /** The machine's address of record. */
  readonly address: string;
  readonly identity?: MachineIdentity;
}

/** What a machine is told that has claimed. */
interface ClaimAnswer {
  readonly id: string;
  readonly state: string;
  /** By which the machine calls the bridge from now on. */
  readonly token?: string;
}

export class MachineRequests {
  readonly #claims: TicketClaimHandler;
  readonly #tokenOf: (enrolment: Enrolment) => string | undefined;
  readonly #refused = new TokenBuckets(refusedTicketRate);

  constructor(claims: TicketClaimHandler, tokenOf: (enrolment: Enrolment) => string | undefined) {
    this.#claims = claims;
    this.#tokenOf = tokenOf;
  }

  /** @throws BridgeError; see {@link TicketClaimHandler.claim}; AuthenticationError ERR_EAUTH_LIMIT */
  async claim(body: unknown, from: MachineOrigin): Promise<ClaimAnswer> {
    const enrolment = await this.#metered(from, async () =>
      this.#claims.claim({ ...parseForm(claimForm, body, 'ERR_ENROLL_ARGS'), ...from }),
    );
    const { id, state } = enrolment;
    // An agent knows the machine, which needs no token.
    const token = from.identity === undefined ? this.#tokenOf(enrolment) : undefined;
    return { id, state, ...(token === undefined ? {} : { token }) };
  }

  /** @throws BridgeError; see {@link TicketClaimHandler.report}; AuthenticationError ERR_EAUTH_LIMIT */
  async report(body: unknown, from: MachineOrigin): Promise<object> {
    await this.#metered(from, async () =>
      this.#claims.report({ ...parseForm(failureForm, body, 'ERR_ENROLL_ARGS'), ...from }),
    );
    return {};
  }

  async #metered<T>({ address }: MachineOrigin, work: () => Promise<T>): Promise<T> {
    if (this.#refused.take(address, 0) > 0) {
      const text = 'too many tickets from this address were refused; try again later';
      throw new AuthenticationError('ERR_EAUTH_LIMIT', text);
    }
    try {
      return await work();
    } catch (error) {
      if (error instanceof BridgeError) this.#refused.take(address);
      throw error;
    }
  }
}
