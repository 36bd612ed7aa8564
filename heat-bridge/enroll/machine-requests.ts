/** Claims and reports of machines with a ticket, as they come: by themselves, or by an agent. */

import type { FastifyInstance, FastifySchema } from 'fastify';
import Type from 'typebox';
import { AuthenticationError } from '#master';
import { compileSchema, TokenBuckets } from '#runtime';
import { BridgeError } from '../errors.ts';
import { describeRoute, parseForm } from '../http/route-schema.ts';
import type { Enrolment } from './enrolment.ts';
import { ClaimBody, FailureBody, type TicketClaimHandler } from './ticket-claims.ts';
import type { MachineIdentity } from './tickets.ts';

/** Refused claims and reports of one address; more are refused unread. */
const refusedTicketRate = { perSecond: 1, burst: 60 };
/** Bytes of a body: a ticket and some words. */
const machineBodyLimit = 8192;

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

/** The ticket is in the body. */
const ticketAccess = 'credentials';
/** Of a claim, whichever way it comes. */
const claimOperation: FastifySchema = describeRoute({
  summary: 'A machine claims for its key, by its ticket',
  access: ticketAccess,
  body: ClaimBody,
  answer: Type.Object({
    id: Type.String(),
    state: Type.String(),
    /** By which the machine calls the bridge from now on. */
    token: Type.Optional(Type.String()),
  }),
});
/** Of a report. */
const failureOperation: FastifySchema = describeRoute({
  summary: 'A machine says, by its ticket, why it cannot be made a minion',
  access: ticketAccess,
  body: FailureBody,
  answer: Type.Object({}),
});

/** Descriptions of the routes of machines. */
export const machineRoutes: {
  readonly bodyLimit: number;
  readonly claim: FastifySchema;
  readonly failure: FastifySchema;
} = { bodyLimit: machineBodyLimit, claim: claimOperation, failure: failureOperation };

/** `POST enroll/claim` and `POST enroll/failure`. */
export function addMachineRoutes(app: FastifyInstance, machines: MachineRequests): void {
  const bodyLimit = machineBodyLimit;
  app.post('/enroll/claim', { bodyLimit, schema: claimOperation }, ({ body, ip: address }) =>
    machines.claim(body, { address }),
  );
  app.post('/enroll/failure', { bodyLimit, schema: failureOperation }, ({ body, ip: address }) =>
    machines.report(body, { address }),
  );
}
