/** Data spaces over HTTP, for services: a space is of whoever registers it. */

import type { FastifyInstance, FastifyRequest, FastifySchema } from 'fastify';
import type { TSchema } from 'typebox';
import Type from 'typebox';
import { BridgeError, describeRoute, ownerNameOf, tokenHolderOf } from '#heat-bridge';
import {
  type AuditRequester,
  AuthorizationError,
  actorOf,
  type ExtensionHost,
  type HttpServerContext,
} from '#master';
import type { DataApi } from './data-api.ts';
import {
  type DataSpaceInfo,
  DataSpaceSchema,
  minionsOfSpace,
  parseDataSpace,
} from './data-spaces.ts';

const text: TSchema = Type.String();
const spaceFields = {
  name: text,
  id: text,
  owner: Type.Optional(text),
  roles: Type.Record(text, Type.Array(text)),
  keys: Type.Integer(),
  registeredAt: Type.Integer(),
};
const SpaceSchema = Type.Object(spaceFields);
const DetailsSchema = Type.Object({
  ...spaceFields,
  values: Type.Array(
    Type.Object({
      key: text,
      writer: text,
      readers: Type.Array(text),
      secret: Type.Boolean(),
      versioned: Type.Boolean(),
      bytes: Type.Optional(Type.Integer()),
    }),
  ),
});

/** Of each route, what it is. */
const routes: Readonly<Record<'add' | 'replace' | 'list' | 'show' | 'remove', FastifySchema>> = {
  add: describeRoute({
    summary: 'Registers a data space: the roles of a stack, and their minions',
    body: DataSpaceSchema,
    answer: SpaceSchema,
  }),
  replace: describeRoute({
    summary: 'Registers a data space in the place of one of this name, whose values stay',
    body: DataSpaceSchema,
    answer: SpaceSchema,
  }),
  list: describeRoute({ summary: "The caller's data spaces", answer: Type.Array(SpaceSchema) }),
  show: describeRoute({
    summary: "A data space of the caller's: which values are written, without the values",
    answer: DetailsSchema,
  }),
  remove: describeRoute({ summary: 'Forgets a data space and its values', answer: SpaceSchema }),
};

/** What a rule of the action `command` calls the right to register data spaces. */
const registerRight = 'bridge.data.add';
const bodyLimit = 4_194_304;

interface NameParams {
  readonly Params: { readonly name: string };
}

export interface DataRoutesDeps {
  readonly host: Pick<ExtensionHost, 'decide' | 'holdToken'>;
  readonly keysPerStack: number;
  /** The interface for somebody, in whose name audit records are. */
  readonly as: (requester: AuditRequester) => DataApi;
}

/**
 * `POST data` and `PUT data/<name>` (replaces), `GET data`, `GET` and `DELETE data/<name>`. Whoever
 * registers a space must be permitted `command` of `bridge.data.add` within all minions of it.
 */
export function addDataRoutes(
  app: FastifyInstance,
  doors: HttpServerContext,
  { host, keysPerStack, as }: DataRoutesDeps,
): void {
  const owned = async (
    request: FastifyRequest,
  ): Promise<{ readonly api: DataApi; readonly owner: string }> => {
    const { subject, stop } = await tokenHolderOf(request, doors, host);
    stop();
    const api = as({ who: actorOf(subject), rule: 'own-data' });
    return { api, owner: ownerNameOf(subject) };
  };
  const add = async (
    request: FastifyRequest,
    given: object,
    replaces: boolean,
  ): Promise<DataSpaceInfo> => {
    const { subject, policy, stop } = await tokenHolderOf(request, doors, host);
    stop();
    const registration = parseDataSpace(given, keysPerStack);
    const resource = {
      call: { fun: registerRight, args: [], kwargs: new Map<string, string>() },
      minions: minionsOfSpace(registration),
    };
    const { effect, rule } = host.decide({ subject, action: 'command', resource }, policy);
    if (effect !== 'allow') {
      throw new AuthorizationError(`no rule permits ${registerRight} for all of these minions`);
    }
    const api = as({ who: actorOf(subject), rule });
    return api.add(registration, { owner: ownerNameOf(subject), replaces });
  };
  app.post('/data', { bodyLimit, schema: routes.add }, (request) =>
    add(request, requireMap(request.body), false),
  );
  app.put<NameParams>('/data/:name', { bodyLimit, schema: routes.replace }, (request) =>
    add(request, { ...requireMap(request.body), name: request.params.name }, true),
  );
  app.get('/data', { schema: routes.list }, async (request) => {
    const { api, owner } = await owned(request);
    return api.list({ owner });
  });
  app.get<NameParams>('/data/:name', { schema: routes.show }, async (request) => {
    const { api, owner } = await owned(request);
    return api.show(request.params.name, { owner });
  });
  app.delete<NameParams>('/data/:name', { schema: routes.remove }, async (request) => {
    const { api, owner } = await owned(request);
    return api.remove(request.params.name, { owner });
  });
}

function requireMap(body: unknown): object {
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body;
  throw new BridgeError('ERR_DATA_FORM', 'the body: expected a map');
}
