import type { FastifyRequest } from 'fastify';
import type { HttpServerContext } from '#master';
import type { AgentRequests } from '../services.ts';
import type { Guest, GuestTokens } from './guest-tokens.ts';

/** Finds the machine that sends a request: by a metadata agent, or with its token. */
export type GuestIdentifier = (request: FastifyRequest) => Promise<Guest>;

/**
 * @param agents - requests of metadata agents, if the bridge accepts any
 * @returns a function that throws AuthenticationError ERR_EAUTH_TOKEN and BridgeError
 * ERR_ENROLL_UNKNOWN
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
