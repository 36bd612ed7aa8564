/** Finds the caller of an HTTP request, and decides early whether it may call a command. */

import type { FastifyRequest } from 'fastify';
import { hasRules, mayCallCommand } from '#acl';
import type { ExtensionHost, HttpServerContext } from '#master';
import { BridgeError } from '../errors.ts';

/** Whoever calls, by the token that a request shows. */
export interface HttpCaller {
  readonly token: string;
  /** Whether some rule may permit a command of this name, whether or not there is one. */
  mayCall(command: string): boolean;
}

/**
 * Finds who calls: whoever may log in. Every tenant of a cloud has a token of Keystone's, and only
 * those of them may whom some rule permits a command.
 * @throws AuthenticationError, BridgeError ERR_COMMAND_DENIED
 */
export function createCallerResolver(
  doors: HttpServerContext,
  host: Pick<ExtensionHost, 'holdToken'>,
): (request: FastifyRequest) => Promise<HttpCaller> {
  return async (request) => {
    const token = doors.tokenOf(request) ?? '';
    const { subject, policy, stop } = await host.holdToken(token);
    stop();
    if (subject.kind !== 'project' || hasRules(subject, 'command', policy)) {
      return { token, mayCall: (command) => mayCallCommand(subject, command, policy) };
    }
    throw new BridgeError('ERR_COMMAND_DENIED', 'no rule permits this project any command');
  };
}

/** Asked before the catalog, so that names and parameters are not told. @throws BridgeError ERR_COMMAND_DENIED */
export function requireCommandRule(caller: HttpCaller, command: string): void {
  if (caller.mayCall(command)) return;
  throw new BridgeError('ERR_COMMAND_DENIED', 'no rule permits a command of this name');
}
