/** Finds the caller of an HTTP request, and decides early whether it may call a command. */

import type { FastifyRequest } from 'fastify';
import { hasRules, mayCallCommand, type Subject } from '#acl';
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

/**
 * The project that a request is for: a token of Keystone's says it, and otherwise the caller may.
 * @throws BridgeError ERR_PROJECT where the caller names another one than that of the token
 */
export function resolveProject(
  subject: Subject | undefined,
  given: string | undefined,
): string | undefined {
  if (subject?.kind !== 'project') return given;
  const { id } = subject.project;
  if (given === undefined || given === id) return id;
  throw new BridgeError('ERR_PROJECT', 'project: another one than that of the token; leave it out');
}

type TokenHolder = Awaited<ReturnType<ExtensionHost['holdToken']>>;

/** Who asks, and what they may; to be stopped. @throws AuthenticationError */
export function tokenHolderOf(
  request: FastifyRequest,
  doors: HttpServerContext,
  host: Pick<ExtensionHost, 'holdToken'>,
): Promise<TokenHolder> {
  // What is no token of anybody is refused there, in the words for all of them.
  return host.holdToken(doors.tokenOf(request) ?? '');
}

/** The name of an owner, which no other subject has. */
export function ownerNameOf(subject: Subject): string {
  switch (subject.kind) {
    case 'minion':
      return `minion:${subject.id}`;
    case 'user':
      return `user:${subject.eauth ?? ''}:${subject.name}`;
    case 'project':
      // Whoever acts for it.
      return `project:${subject.project.id}`;
    default:
      return `${subject.kind}:${subject.name}`;
  }
}
