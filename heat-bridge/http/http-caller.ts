/** Determines the caller of an HTTP request, and checks early whether it may call a command. */

import type { FastifyRequest } from 'fastify';
import { hasRules, mayCallCommand, type Subject } from '#acl';
import type { ExtensionHost, HttpServerContext } from '#master';
import { BridgeError } from '../errors.ts';

/** Caller, authenticated by the token of a request. */
export interface HttpCaller {
  readonly token: string;
  /** Whether a rule may permit a command with this name, even if the command does not exist. */
  mayCall(command: string): boolean;
}

/**
 * Creates a function that returns the caller of a request. Every tenant of a cloud has a Keystone
 * token, so such a caller needs at least one rule that permits a command.
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
    throw new BridgeError('ERR_COMMAND_DENIED', 'no rule permits any command for this project');
  };
}

/**
 * Checks the caller's rules before the catalog is read, so that names and parameters are not
 * disclosed.
 * @throws BridgeError ERR_COMMAND_DENIED
 */
export function requireCommandRule(caller: HttpCaller, command: string): void {
  if (caller.mayCall(command)) return;
  throw new BridgeError('ERR_COMMAND_DENIED', 'no rule permits a command with this name');
}

/**
 * Returns the project of a request: that of a Keystone token, or the given one otherwise.
 * @throws BridgeError ERR_PROJECT if the caller names another project than the token
 */
export function resolveProject(
  subject: Subject | undefined,
  given: string | undefined,
): string | undefined {
  if (subject?.kind !== 'project') return given;
  const { id } = subject.project;
  if (given === undefined || given === id) return id;
  throw new BridgeError('ERR_PROJECT', "project does not match the token's project; omit it");
}

type TokenHolder = Awaited<ReturnType<ExtensionHost['holdToken']>>;

/**
 * Returns the caller and its policy. Call `stop` on the result.
 * @throws AuthenticationError
 */
export function tokenHolderOf(
  request: FastifyRequest,
  doors: HttpServerContext,
  host: Pick<ExtensionHost, 'holdToken'>,
): Promise<TokenHolder> {
  // A missing token gets the same error as an invalid one.
  return host.holdToken(doors.tokenOf(request) ?? '');
}
