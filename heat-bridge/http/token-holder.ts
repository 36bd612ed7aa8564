/** Finds who sends an HTTP request, and under which name they own handles and stacks. */

import type { FastifyRequest } from 'fastify';
import type { Subject } from '#acl';
import type { ExtensionHost, HttpServerContext } from '#master';

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
