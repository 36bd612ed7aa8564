/** Keys of the services that the extensions of `guests/` provide to each other and to programs. */

import type { FastifyRequest } from 'fastify';
import { defineService, type ServiceKey } from '#master';
import type { DataApi } from './data-spaces/data-api.ts';
import type { Guest } from './data-spaces/guest-tokens.ts';
import type { StacksApi } from './deployments/stacks-api.ts';

/** Handles requests of metadata agents. An agent sends a request for an instance. */
export interface AgentRequests {
  /** Whether a request claims that a metadata agent sent it. */
  isFromAgent(request: FastifyRequest): boolean;
  /**
   * Authenticates an agent's request, and returns the machine for which the agent sent it.
   * @throws AuthenticationError ERR_EAUTH_TOKEN, ERR_EAUTH_LIMIT; BridgeError ERR_ENROLL_UNKNOWN
   */
  guestOf(request: FastifyRequest): Guest;
}

export const guestServices: {
  readonly stacks: ServiceKey<StacksApi>;
  readonly data: ServiceKey<DataApi>;
  readonly agents: ServiceKey<AgentRequests>;
} = {
  stacks: defineService('bridge-deployments'),
  data: defineService('bridge-data-spaces'),
  agents: defineService('bridge-metadata-agent'),
};
