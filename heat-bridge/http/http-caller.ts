/** Authenticates the callers of HTTP requests, and checks whether they may run a command. */

import type { FastifyRequest } from 'fastify';
import { hasRules, mayCallCommand, type Subject } from '#acl';
import {
  AuthorizationError,
  actorOf,
  type ExtensionHost,
  type HttpServerContext,
  requesterName,
  type TokenHolder,
  withToken,
} from '#master';
import { deniedByName } from '../commands/callers.ts';
import { BridgeError } from '../errors.ts';

/** Subject of a token, and the policy that applies to it. */
type Rights = Pick<TokenHolder, 'subject' | 'policy'>;

/** Caller that the token of an HTTP request authenticates. */
export interface HttpCaller {
  readonly token: string;
  /**
   * Name that identifies the caller in the limit on open streams. All tokens of a user have the
   * same name. All Keystone users of a project share one name.
   */
  readonly owner: string;
  /**
   * Whether rules could permit the caller to run a command with this name. The command need not
   * exist.
   */
  mayCall(command: string): boolean;
}

/**
 * Creates a function that returns the caller of a request. Every user of the cloud can get a
 * Keystone token. Therefore a caller with a Keystone token is rejected if no rule permits its
 * project to run a command.
 * @throws AuthenticationError, BridgeError ERR_COMMAND_DENIED
 */
export function createCallerResolver(
  doors: HttpServerContext,
  host: Pick<ExtensionHost, 'holdToken'>,
): (request: FastifyRequest) => Promise<HttpCaller> {
  return async (request) => {
    const token = doors.tokenOf(request) ?? '';
    const { subject, policy, stop } = await host.holdToken(token, request.ip);
    stop();
    if (subject.kind !== 'project' || hasRules(subject, 'command', policy)) {
      const owner = ownerOf(subject);
      return { token, owner, mayCall: (command) => mayCallCommand(subject, command, policy) };
    }
    throw new BridgeError('ERR_COMMAND_DENIED', 'no rule permits any command for this project');
  };
}

function ownerOf(subject: Subject): string {
  // Other HTTP routes count the streams of the same user under the same name.
  return subject.kind === 'project'
    ? `project ${subject.project.id}`
    : requesterName(actorOf(subject));
}

/**
 * Checks that rules could permit the caller to run a command with this name. Must be called before
 * the catalog is read, so that names and parameters of commands are not disclosed.
 * @throws BridgeError ERR_COMMAND_DENIED
 */
export function requireCommandRule(caller: HttpCaller, command: string): void {
  if (!caller.mayCall(command)) throw deniedByName();
}

/**
 * Checks that at least one rule can grant a right of the bridge to the holder of a token. Must be
 * called before any other work for the request, so that callers without the right learn nothing.
 * @throws AuthorizationError ERR_DENIED
 */
export function requireRight({ subject, policy }: Rights, right: string): void {
  if (mayCallCommand(subject, right, policy)) return;
  throw new AuthorizationError(`no rule permits this caller to perform the action ${right}`);
}

/**
 * Returns the project of a request: the project of a Keystone token, otherwise the given one.
 * @throws BridgeError ERR_PROJECT if the given project differs from that of the token
 */
export function resolveProject(
  subject: Subject | undefined,
  given: string | undefined,
): string | undefined {
  if (subject?.kind !== 'project') return given;
  const { id } = subject.project;
  if (given === undefined || given === id) return id;
  throw new BridgeError(
    'ERR_PROJECT',
    "the given project differs from the token's project; omit it",
  );
}

/** Returns the token of a request. A missing token causes the same error as an invalid one. */
function sentToken(
  request: FastifyRequest,
  doors: Pick<HttpServerContext, 'tokenOf'>,
): { readonly token: string; readonly address: string } {
  return { token: doors.tokenOf(request) ?? '', address: request.ip };
}

/**
 * Returns the subject and the policy of the caller. `stop` of the result must be called when they
 * are no longer needed.
 * @throws AuthenticationError
 */
export function tokenHolderOf(
  request: FastifyRequest,
  doors: Pick<HttpServerContext, 'tokenOf'>,
  host: Pick<ExtensionHost, 'holdToken'>,
): Promise<TokenHolder> {
  const { token, address } = sentToken(request, doors);
  return host.holdToken(token, address);
}

/**
 * Calls `work` with the subject and the policy of the caller. They are kept current until `work`
 * ends.
 * @throws AuthenticationError, and the errors of `work`
 */
export function withTokenHolder<T>(
  request: FastifyRequest,
  doors: Pick<HttpServerContext, 'tokenOf'>,
  host: Pick<ExtensionHost, 'holdToken'>,
  work: (holder: TokenHolder) => Promise<T>,
): Promise<T> {
  return withToken(host, sentToken(request, doors), work);
}
