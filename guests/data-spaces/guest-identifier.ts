import type { FastifyRequest } from 'fastify';
import type { HttpServerContext } from '#master';
import type { AgentRequests } from '../services.ts';
import type { Guest, GuestTokens } from './guest-tokens.ts';

/**
 * Authenticates the machine that sent a request, by the signature of a metadata agent or by the
 * machine's own token.
 */
export type GuestIdentifier = (request: FastifyRequest) => Promise<Guest>;

/**
 * Creates a function that authenticates the machine that sent a request. The function throws
 * AuthenticationError ERR_EAUTH_TOKEN or BridgeError ERR_ENROLL_UNKNOWN.
 * @param agents - verifies requests of metadata agents; `undefined` if there are none
 */
export function createGuestIdentifier(
  server: Pick<HttpServerContext, 'tokenOf'>,
  tokens: GuestTokens,
  agents: AgentRequests | undefined,
): GuestIdentifier {
  return async (request) => {
    if (agents?.isFromAgent(request) === true) return agents.guestOf(request);
    return tokens.identify(server.tokenOf(request) ?? '');
  };
}
