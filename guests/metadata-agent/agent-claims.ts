/** Claims and reports of machines that a metadata agent has found out. */

import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { EnrolmentModule } from '#heat-bridge';
import { relayedAddress } from '#minion-protocol';
import { tryParseJson } from '#runtime';
import { textOf } from '../request-body.ts';
import type { IdentifiedInstance } from './agent-credentials.ts';

/**
 * `POST guest/enroll/claim` and `POST guest/enroll/failure`: the ticket must be good for the
 * instance and its project, whatever the machine says of itself.
 * @param identify - @throws AuthenticationError ERR_EAUTH_TOKEN
 */
export function addAgentClaimRoutes(
  app: FastifyInstance,
  identify: (request: FastifyRequest) => IdentifiedInstance,
  { machines, machineRoutes }: Pick<EnrolmentModule, 'machineRoutes' | 'machines'>,
): void {
  const { bodyLimit, claim, failure } = machineRoutes;
  const originOf = (request: FastifyRequest): Parameters<typeof machines.claim>[1] => {
    const { instance, project } = identify(request);
    // As a relay has it, so that a ticket may be bound to it.
    const address = relayedAddress({ network: '', address: '', instance, project });
    return { address, identity: { instance, project } };
  };
  app.post('/guest/enroll/claim', { bodyLimit, schema: claim }, async (request) => {
    const from = originOf(request);
    return machines.claim(tryParseJson(textOf(request.body)), from);
  });
  app.post('/guest/enroll/failure', { bodyLimit, schema: failure }, async (request) => {
    const from = originOf(request);
    return machines.report(tryParseJson(textOf(request.body)), from);
  });
}
