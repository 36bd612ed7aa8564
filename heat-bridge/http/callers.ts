import type { FastifyRequest } from 'fastify';
import { hasRules } from '../../acl/index.ts';
import type { ExtensionHost } from '../../master/index.ts';
import { BridgeError } from '../errors.ts';
import type { HttpDoors } from './doors.ts';

/** Whoever calls, by the token that a request shows. */
export interface HttpCaller {
  readonly token: string;
}

/**
 * Finds who may know what there is to be called: whoever may log in. Every tenant of a cloud has a
 * token of Keystone's, and only those of them may whom some rule permits a command.
 * @throws AuthenticationError, BridgeError ERR_COMMAND_DENIED
 */
export function callerFinder(
  doors: HttpDoors,
  host: Pick<ExtensionHost, 'holdToken'>,
): (request: FastifyRequest) => Promise<HttpCaller> {
  return async (request) => {
    const token = doors.tokenOf(request) ?? '';
    const { subject, policy, stop } = await host.holdToken(token);
    stop();
    if (subject.kind !== 'project' || hasRules(subject, 'command', policy)) return { token };
    throw new BridgeError('ERR_COMMAND_DENIED', 'no rule permits this project any command');
  };
}
