/** HTTP routes of stacks, for services. Each service has access to its own stacks only. */

import type { FastifyInstance } from 'fastify';
import { addRegistrationRoutes, BridgeError, resolveProject } from '#heat-bridge';
import type { ExtensionHost, HttpServerContext } from '#master';
import { type DeploymentsModule, stackRight } from './open-deployments.ts';
import { parseStackRegistration, StackRegistrationSchema, StackSchema } from './stacks.ts';
import { minionsOfRegistration, StackDetailsSchema } from './stacks-api.ts';

/**
 * Adds the HTTP routes that manage stacks. Rules for the subject that registered a stack determine
 * what its deployments may run.
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
    right: stackRight,
    rule: 'own-stack',
    formError: 'ERR_STACK_FORM',
    bodyLimit: 4_194_304,
    summaries: {
      add: 'Registers a stack whose software deployments the bridge runs; the caller becomes its owner',
      replace: 'Replaces the stack with this name',
      list: "Lists the caller's stacks",
      show: "Returns one of the caller's stacks, with its servers and deployments",
      remove: 'Removes a stack and its secrets',
    },
    body: StackRegistrationSchema,
    info: StackSchema,
    details: StackDetailsSchema,
    read: (given, subject) => {
      const asked = parseStackRegistration(given);
      const project = resolveProject(subject, asked.project);
      const registration = project === undefined ? asked : { ...asked, project };
      if (registration.service !== undefined) {
        throw new BridgeError(
          'ERR_STACK_FORM',
          'service: not permitted over HTTP, because the rules for the owner of the token apply; omit it',
        );
      }
      return { registration, minions: minionsOfRegistration(registration) };
    },
    as: (requester, subject) => stacks.as(requester, subject),
  });
}
