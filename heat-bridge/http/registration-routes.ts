/**
 * HTTP routes with which services manage registrations. A service has access only to its own
 * registrations.
 */

import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyRequest, FastifySchema } from 'fastify';
import Type, { type TObject, type TSchema } from 'typebox';
import type { Subject } from '#acl';
import {
  type AuditRequester,
  AuthorizationError,
  actorOf,
  type ExtensionHost,
  type HttpServerContext,
  requireValid,
  type TokenHolder,
} from '#master';
import { LimitExceeded, TokenBuckets } from '#runtime';
import { isPlainMap } from '../commands/command-definition.ts';
import { BridgeError, type BridgeErrorCode } from '../errors.ts';
import { bridgeLimits } from '../limits.ts';
import { ownerNameOf } from '../owner-name.ts';
import type { RegistrationOwner, RegistrationsApi } from '../registrations.ts';
import { requireRight, tokenHolderOf, withTokenHolder } from './http-caller.ts';
import { describeRoute } from './route-schema.ts';
import { jsonInSteps } from './written-answers.ts';

const strict = { additionalProperties: false };

type Operation = 'add' | 'replace' | 'list' | 'show' | 'remove';

/** Parsed registration, and the minions in it. The owner needs a permission for these minions. */
interface ReadRegistration<Registration> {
  readonly registration: Registration;
  /**
   * Minions for which the rules must permit the registration. `undefined` if its minions can
   * change. The rules must then permit the registration for all minions.
   */
  readonly minions: readonly string[] | undefined;
}

/** Description of a kind of registrations, with the functions that its routes call. */
export interface RegistrationRoutes<Registration, Info, Details> {
  /** Name of the collection in paths, for example `stacks`. */
  readonly collection: string;
  /** Name of the field that contains the name of a registration. */
  readonly key: 'alias' | 'name';
  /** Name of the right to register, in rules of the action `command`. */
  readonly right: string;
  /**
   * Name that audit records contain instead of a rule if owners read or remove what they have
   * registered, for example `own-stack`.
   */
  readonly rule: string;
  /** Error code for a body that is not a JSON object. */
  readonly formError: BridgeErrorCode;
  readonly bodyLimit: number;
  /** Schemas of query fields. They select one of several registrations with the same name. */
  readonly query?: Readonly<Record<string, TSchema>>;
  readonly summaries: Readonly<Record<Operation, string>>;
  readonly body: TObject;
  readonly info: TSchema;
  readonly details: TSchema;
  /**
   * Parses a handle, stack or data space that a client wants to register.
   * @throws BridgeError
   */
  readonly read: (
    given: object,
    subject: Subject,
  ) => ReadRegistration<Registration> | Promise<ReadRegistration<Registration>>;
  /** Returns the API for a subject. Audit records name the subject as the requester. */
  readonly as: (
    requester: AuditRequester,
    subject: Subject,
  ) => RegistrationsApi<Registration, Info, Details>;
}

/** Access of a service to its own registrations. */
interface OwnRegistrations<Api> {
  readonly api: Api;
  readonly by: AuditRequester;
  /**
   * Fields that, together with the name of a registration, select it: the owner name of the
   * service, and the query fields of the request. The name alone can be ambiguous.
   */
  readonly of: RegistrationOwner & { readonly owner: string };
}

/**
 * Adds the HTTP routes of one kind of registrations: `GET` and `POST` for the collection, and
 * `GET`, `PUT` and `DELETE` for a name. `PUT` replaces an existing registration. To create or
 * replace a registration, the caller needs the right to do so on all minions that the registration
 * names.
 * @returns a function for the handlers of further routes. It authenticates the service that sent a
 * request, and returns the access of this service to its own registrations
 */
export function addRegistrationRoutes<Registration, Info, Details>(
  app: FastifyInstance,
  server: Pick<HttpServerContext, 'tokenOf'>,
  host: Pick<ExtensionHost, 'decide' | 'holdToken'>,
  kind: RegistrationRoutes<Registration, Info, Details>,
): (
  request: FastifyRequest,
) => Promise<OwnRegistrations<RegistrationsApi<Registration, Info, Details>>> {
  const { collection, key, right, bodyLimit } = kind;
  const schemas = schemasOf(kind);
  const rates = new TokenBuckets(bridgeLimits.registrationRate);
  const owned: ReturnType<typeof addRegistrationRoutes<Registration, Info, Details>> = async (
    request,
  ) => {
    const { subject, stop } = await tokenHolderOf(request, server, host);
    stop();
    const by = { who: actorOf(subject), rule: kind.rule };
    const fields = Object.entries(Object(request.query)).filter(
      ([name]) => name in (kind.query ?? {}),
    );
    const of = { ...Object.fromEntries(fields), owner: ownerNameOf(subject) };
    return { api: kind.as(by, subject), by, of };
  };
  const add = (request: FastifyRequest, given: object, replaces: boolean): Promise<Info> =>
    withTokenHolder(request, server, host, (holder) => register(holder, given, replaces));
  const register = async (holder: TokenHolder, given: object, replaces: boolean): Promise<Info> => {
    requireRight(holder, right);
    const owner = ownerNameOf(holder.subject);
    if (!rates.tryTake(owner)) {
      const { registrationRate: limit } = bridgeLimits;
      throw new LimitExceeded(limit);
    }
    const { registration, minions } = await kind.read(given, holder.subject);
    const resource = {
      call: { fun: right, args: [], kwargs: new Map<string, string>() },
      ...(minions === undefined ? {} : { minions }),
    };
    // The token can end, and the groups of its user and the policy can change, while the
    // registration waits.
    const permit = (isRepeated: boolean): string => {
      requireValid(holder);
      const { subject, policy } = holder;
      const question = { subject, action: 'command', resource, isRepeated } as const;
      const { effect, rule } = host.decide(question, policy);
      if (effect === 'allow') return rule;
      throw new AuthorizationError(
        `no rule permits this caller to perform the action ${right} for all of these minions`,
      );
    };
    const rule = permit(false);
    const api = kind.as({ who: actorOf(holder.subject), rule }, holder.subject);
    return api.add(registration, { owner, replaces, requirePermission: () => permit(true) });
  };
  const mapIn = ({ body }: FastifyRequest): object => {
    if (isPlainMap(body)) return body;
    throw new BridgeError(kind.formError, 'the request body must be a JSON object');
  };
  const one = `/${collection}/:${key}`;
  app.post(`/${collection}`, { bodyLimit, schema: schemas.add }, (request) =>
    add(request, mapIn(request), false),
  );
  app.put(one, { bodyLimit, schema: schemas.replace }, (request) =>
    add(request, Object.assign(mapIn(request), { [key]: nameIn(request, key) }), true),
  );
  app.get(`/${collection}`, { schema: schemas.list }, async (request, reply) => {
    const { api, of } = await owned(request);
    const all = await api.list({ owner: of.owner });
    return reply.type('application/json; charset=utf-8').send(Readable.from(jsonInSteps(all)));
  });
  app.get(one, { schema: schemas.show }, async (request) => {
    const { api, of } = await owned(request);
    return api.show(nameIn(request, key), of);
  });
  app.delete(one, { schema: schemas.remove }, async (request) => {
    const { api, of } = await owned(request);
    return api.remove(nameIn(request, key), of);
  });
  return owned;
}

/** Returns the name of a handle, stack or data space from the path of a request. */
export function nameIn({ params }: FastifyRequest, key: 'alias' | 'name'): string {
  return String(Object(params)[key]);
}

function schemasOf({
  key,
  summaries,
  body,
  info,
  details,
  query,
}: Pick<
  RegistrationRoutes<unknown, unknown, unknown>,
  'body' | 'details' | 'info' | 'key' | 'query' | 'summaries'
>): Readonly<Record<Operation, FastifySchema>> {
  // The path contains the name, so the body may omit it.
  const name = Type.Optional(body.properties[key] ?? Type.String());
  const replacement = Type.Object({ ...body.properties, [key]: name }, strict);
  const selected = query === undefined ? {} : { query };
  return {
    add: describeRoute({ summary: summaries.add, body, answer: info }),
    replace: describeRoute({ summary: summaries.replace, body: replacement, answer: info }),
    list: describeRoute({ summary: summaries.list, answer: Type.Array(info) }),
    show: describeRoute({ summary: summaries.show, answer: details, ...selected }),
    remove: describeRoute({ summary: summaries.remove, answer: info, ...selected }),
  };
}
