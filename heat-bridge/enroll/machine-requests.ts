/**
 * Handles requests of machines with a ticket: claims, and reports of failure. Machines send them
 * directly or through a metadata agent.
 */

import type { FastifyInstance, FastifySchema } from 'fastify';
import Type from 'typebox';
import { AuthenticationError } from '#master';
import { addressOwner, compileSchema, TokenBuckets } from '#runtime';
import { BridgeError } from '../errors.ts';
import { describeRoute, parseForm } from '../http/route-schema.ts';
import { bridgeLimits } from '../limits.ts';
import type { Enrolment } from './enrolment.ts';
import { ClaimBody, FailureBody, type TicketClaimHandler } from './ticket-claims.ts';
import type { MachineIdentity } from './tickets.ts';

/** Maximum size of a request body, in bytes. */
const machineBodyLimit = 8192;

const claimForm = compileSchema(ClaimBody);
const failureForm = compileSchema(FailureBody);

/** Sender of a request: its address, and its identity if a metadata agent forwards the request. */
interface MachineOrigin {
  /**
   * Address of the machine. If the request came through a metadata agent, this is a text that
   * identifies the instance. A ticket can be bound to the address. Rejected requests are counted
   * for each address.
   */
  readonly address: string;
  readonly identity?: MachineIdentity;
}

/** Response to an accepted claim. */
interface ClaimAnswer {
  readonly id: string;
  readonly state: string;
  /** Token with which the machine authenticates its later requests. */
  readonly token?: string;
}

export class MachineRequests {
  readonly #claims: TicketClaimHandler;
  readonly #tokenOf: (enrolment: Enrolment) => string | undefined;
  readonly #refused = new TokenBuckets(bridgeLimits.refusedTickets);

  constructor(claims: TicketClaimHandler, tokenOf: (enrolment: Enrolment) => string | undefined) {
    this.#claims = claims;
    this.#tokenOf = tokenOf;
  }

  /**
   * Handles a claim.
   * @throws BridgeError ERR_ENROLL_ARGS, ERR_ENROLL_TAKEN, ERR_TICKET, ERR_TICKET_BOUND,
   * ERR_TICKET_EXPIRED, ERR_TICKET_SPENT; AuthenticationError ERR_EAUTH_LIMIT
   */
  async claim(body: unknown, from: MachineOrigin): Promise<ClaimAnswer> {
    const enrolment = await this.#metered(from, async () =>
      this.#claims.claim({ ...parseForm(claimForm, body, 'ERR_ENROLL_ARGS'), ...from }),
    );
    const { id, state } = enrolment;
    // A metadata agent authenticates the requests of its machines, so they need no token.
    const token = from.identity === undefined ? this.#tokenOf(enrolment) : undefined;
    return { id, state, ...(token === undefined ? {} : { token }) };
  }

  /**
   * Handles a report of failure.
   * @throws BridgeError ERR_ENROLL_ARGS, ERR_TICKET, ERR_TICKET_BOUND, ERR_TICKET_SPENT;
   * AuthenticationError ERR_EAUTH_LIMIT
   */
  async report(body: unknown, from: MachineOrigin): Promise<object> {
    await this.#metered(from, async () =>
      this.#claims.report({ ...parseForm(failureForm, body, 'ERR_ENROLL_ARGS'), ...from }),
    );
    return {};
  }

  async #metered<T>({ address }: MachineOrigin, work: () => Promise<T>): Promise<T> {
    if (this.#refused.take(addressOwner(address), 0) > 0) {
      const text = 'too many rejected tickets from this address; try again later';
      throw new AuthenticationError('ERR_EAUTH_LIMIT', text);
    }
    try {
      return await work();
    } catch (error) {
      if (error instanceof BridgeError) this.#refused.take(addressOwner(address));
      throw error;
    }
  }
}

/**
 * Value of `access` for these routes in the OpenAPI document. Each request contains its own
 * credentials: the ticket in the body.
 */
const ticketAccess = 'credentials';
/** OpenAPI description of the route through which a machine submits its key with its ticket. */
const claimOperation: FastifySchema = describeRoute({
  summary: "Accepts a machine's key, authenticated by its ticket",
  access: ticketAccess,
  body: ClaimBody,
  answer: Type.Object({
    id: Type.String(),
    state: Type.String(),
    /** Token with which the machine authenticates its later requests. */
    token: Type.Optional(Type.String()),
  }),
});
/** Schema of a report of failure. */
const failureOperation: FastifySchema = describeRoute({
  summary: 'Reports why a machine cannot become a minion, authenticated by its ticket',
  access: ticketAccess,
  body: FailureBody,
  answer: Type.Object({}),
});

/** Schemas of the routes for machines. */
export const machineRoutes: {
  readonly bodyLimit: number;
  readonly claim: FastifySchema;
  readonly failure: FastifySchema;
} = { bodyLimit: machineBodyLimit, claim: claimOperation, failure: failureOperation };

/** Adds the routes for machines with a ticket: `POST enroll/claim` and `POST enroll/failure`. */
export function addMachineRoutes(app: FastifyInstance, machines: MachineRequests): void {
  const bodyLimit = machineBodyLimit;
  app.post('/enroll/claim', { bodyLimit, schema: claimOperation }, ({ body, ip: address }) =>
    machines.claim(body, { address }),
  );
  app.post('/enroll/failure', { bodyLimit, schema: failureOperation }, ({ body, ip: address }) =>
    machines.report(body, { address }),
  );
}
