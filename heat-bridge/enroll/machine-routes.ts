/** Routes for machines. The ticket is the only credential of a machine. */

import type { FastifyInstance, FastifySchema } from 'fastify';
import Type from 'typebox';
import { describeRoute } from '../http/route-schema.ts';
import { type MachineRequests, machineBodyLimit } from './machine-requests.ts';
import { ClaimBody, FailureBody } from './ticket-claims.ts';

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
