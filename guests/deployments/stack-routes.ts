/** Stacks over HTTP, for services: each has its own, and sees no others. */

import type { FastifyInstance, FastifyRequest, FastifySchema } from 'fastify';
import type { TSchema } from 'typebox';
import Type from 'typebox';
import {
  BridgeError,
  describeRoute,
  ownerNameOf,
  resolveProject,
  tokenHolderOf,
} from '#heat-bridge';
import { AuthorizationError, actorOf, type ExtensionHost, type HttpServerContext } from '#master';
import type { DeploymentsModule } from './open-deployments.ts';
import {
  parseStackRegistration,
  type StackInfo,
  type StackRegistration,
  StackRegistrationSchema,
} from './stacks.ts';
import { minionsOfRegistration, type StacksApi } from './stacks-api.ts';

const text: TSchema = Type.String();
const optionalText: TSchema = Type.Optional(text);
const count: TSchema = Type.Integer();
const texts: TSchema = Type.Array(text);

const stackFields = {
  name: text,
  id: text,
  owner: optionalText,
  stack: optionalText,
  minions: texts,
  servers: Type.Array(Type.Object({ server: text, minion: optionalText, source: text })),
  origins: texts,
  unlisted: texts,
  registeredAt: count,
};
const StackSchema = Type.Object(stackFields);
const DetailsSchema = Type.Object({
  ...stackFields,
  followed: Type.Array(
    Type.Object({
      server: text,
      serverId: text,
      minion: optionalText,
      readAt: Type.Optional(count),
      problem: optionalText,
      warnings: Type.Optional(Type.Array(text)),
    }),
  ),
  deployments: Type.Array(
    Type.Object({
      id: text,
      server: text,
      minion: text,
      name: text,
      action: optionalText,
      command: optionalText,
      state: text,
      end: optionalText,
      reason: optionalText,
      begunAt: count,
      endedAt: Type.Optional(count),
    }),
  ),
  unclaimed: Type.Array(
    Type.Object({
      id: text,
      alias: text,
      minion: text,
      member: optionalText,
      state: Type.Union([Type.Literal('dead'), Type.Literal('held')]),
      acceptedAt: count,
      reason: optionalText,
    }),
  ),
});

/** Of each route, what it is. */
const routes: Readonly<Record<'add' | 'replace' | 'list' | 'show' | 'remove', FastifySchema>> = {
  add: describeRoute({
    summary: 'Registers a stack, whose software deployments are run; it is of whoever asks',
    body: StackRegistrationSchema,
    answer: StackSchema,
  }),
  replace: describeRoute({
    summary: 'Registers a stack in the place of one of this name',
    body: StackRegistrationSchema,
    answer: StackSchema,
  }),
  list: describeRoute({ summary: "The caller's stacks", answer: Type.Array(StackSchema) }),
  show: describeRoute({
    summary: "A stack of the caller's: its servers and deployments",
    answer: DetailsSchema,
  }),
  remove: describeRoute({ summary: 'Forgets a stack and its secrets', answer: StackSchema }),
};

/** What a rule of the action `command` calls the right to register stacks. */
const registerRight = 'bridge.stack.add';
const bodyLimit = 4_194_304;

interface NameParams {
  readonly Params: { readonly name: string };
}

/**
 * `POST stacks` and `PUT stacks/<name>` (replaces), `GET stacks`, `GET` and `DELETE stacks/<name>`.
 * Whoever registers a stack must be permitted `command` of `bridge.stack.add` within all minions that
 * it names; what its deployments run is decided by the rules for the same subject.
 */
export function addStackRoutes(
  app: FastifyInstance,
  doors: HttpServerContext,
  host: Pick<ExtensionHost, 'decide' | 'holdToken'>,
  stacks: Pick<DeploymentsModule, 'as'>,
): void {
  const owned = async (
    request: FastifyRequest,
  ): Promise<{ readonly api: StacksApi; readonly owner: string }> => {
    const { subject, stop } = await tokenHolderOf(request, doors, host);
    stop();
    const api = stacks.as({ who: actorOf(subject), rule: 'own-stack' }, subject);
    return { api, owner: ownerNameOf(subject) };
  };
  const add = async (
    request: FastifyRequest,
    given: object,
    replaces: boolean,
  ): Promise<StackInfo> => {
    const { subject, policy, stop } = await tokenHolderOf(request, doors, host);
    stop();
    const asked = parseStackRegistration(given);
    const project = resolveProject(subject, asked.project);
    const registration: StackRegistration = project === undefined ? asked : { ...asked, project };
    if (registration.service !== undefined) {
      throw new BridgeError('ERR_STACK_FORM', 'service: the rules are those of the token');
    }
    const resource = {
      call: { fun: registerRight, args: [], kwargs: new Map<string, string>() },
      minions: minionsOfRegistration(registration),
    };
    const { effect, rule } = host.decide({ subject, action: 'command', resource }, policy);
    if (effect !== 'allow') {
      throw new AuthorizationError(`no rule permits ${registerRight} for all of these minions`);
    }
    const api = stacks.as({ who: actorOf(subject), rule }, subject);
    return api.add(registration, { owner: ownerNameOf(subject), replaces });
  };
  app.post('/stacks', { bodyLimit, schema: routes.add }, (request) =>
    add(request, requireMap(request.body), false),
  );
  app.put<NameParams>('/stacks/:name', { bodyLimit, schema: routes.replace }, (request) =>
    add(request, { ...requireMap(request.body), name: request.params.name }, true),
  );
  app.get('/stacks', { schema: routes.list }, async (request) => {
    const { api, owner } = await owned(request);
    return api.list({ owner });
  });
  app.get<NameParams>('/stacks/:name', { schema: routes.show }, async (request) => {
    const { api, owner } = await owned(request);
    return api.show(request.params.name, { owner });
  });
  app.delete<NameParams>('/stacks/:name', { schema: routes.remove }, async (request) => {
    const { api, owner } = await owned(request);
    return api.remove(request.params.name, { owner });
  });
}

function requireMap(body: unknown): object {
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body;
  throw new BridgeError('ERR_STACK_FORM', 'the body: expected a map');
}
