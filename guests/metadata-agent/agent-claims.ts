/** Claims and reports of machines that a metadata agent has found out. */

import type { FastifyInstance, FastifyRequest } from 'fastify';
import { claimOperation, failureOperation } from '#heat-bridge/enroll/enrolment-routes.ts';
import { type MachineRequests, machineBodyLimit } from '#heat-bridge/enroll/machine-requests.ts';
import { relayedAddress } from '#minion-protocol';
import { tryParseJson } from '#runtime';
import { textOf } from '../guest-requests.ts';
import type { IdentifiedInstance } from './agent-credentials.ts';

/**
 * `POST guest/enroll/claim` and `POST guest/enroll/failure`: the ticket must be good for the
 * instance and its project, whatever the machine says of itself.
 * @param identify - @throws AuthenticationError ERR_EAUTH_TOKEN
 */
export function addAgentClaimRoutes(
  app: FastifyInstance,
  identify: (request: FastifyRequest) => IdentifiedInstance,
  machines: MachineRequests,
): void {
  const bodyLimit = machineBodyLimit;
  const originOf = (request: FastifyRequest): Parameters<MachineRequests['claim']>[1] => {
    const { instance, project } = identify(request);
    // As a relay has it, so that a ticket may be bound to it.
    const address = relayedAddress({ network: '', address: '', instance, project });
    return { address, identity: { instance, project } };
  };
  app.post('/guest/enroll/claim', { bodyLimit, schema: claimOperation }, async (request) => {
    const from = originOf(request);
    return machines.claim(tryParseJson(textOf(request.body)), from);
  });
  app.post('/guest/enroll/failure', { bodyLimit, schema: failureOperation }, async (request) => {
    const from = originOf(request);
    return machines.report(tryParseJson(textOf(request.body)), from);
  });
}
