/** Stacks over HTTP, for services: each has its own, and sees no others. */

import type { FastifyInstance } from 'fastify';
import { addRegistrationRoutes, BridgeError, resolveProject } from '#heat-bridge';
import type { ExtensionHost, HttpServerContext } from '#master';
import type { DeploymentsModule } from './open-deployments.ts';
import { parseStackRegistration, StackRegistrationSchema, StackSchema } from './stacks.ts';
import { minionsOfRegistration, StackDetailsSchema } from './stacks-api.ts';

/**
 * See {@link addRegistrationRoutes}. What the deployments of a stack run is decided by the rules for
 * the subject that registered it.
 */
export function addStackRoutes(
  app: FastifyInstance,
  server: HttpServerContext,
  host: Pick<ExtensionHost, 'decide' | 'holdToken'>,
  stacks: Pick<DeploymentsModule, 'as'>,
): void {
  addRegistrationRoutes(app, server, host, {
    collection: 'stacks',
    key: 'name',
    right: 'bridge.stack.add',
    rule: 'own-stack',
    formError: 'ERR_STACK_FORM',
    bodyLimit: 4_194_304,
    summaries: {
      add: 'Registers a stack, whose software deployments are run; it is of whoever asks',
      replace: 'Registers a stack in the place of one of this name',
      list: "The caller's stacks",
      show: "A stack of the caller's: its servers and deployments",
      remove: 'Forgets a stack and its secrets',
    },
    body: StackRegistrationSchema,
    info: StackSchema,
    details: StackDetailsSchema,
    read: (given, subject) => {
      const asked = parseStackRegistration(given);
      const project = resolveProject(subject, asked.project);
      const registration = project === undefined ? asked : { ...asked, project };
      if (registration.service !== undefined) {
        throw new BridgeError('ERR_STACK_FORM', 'service: the rules are those of the token');
      }
      return { registration, minions: minionsOfRegistration(registration) };
    },
    as: (requester, subject) => stacks.as(requester, subject),
  });
}
