/** Registrations over HTTP, for services: each service has its own, and sees no others. */

import type { FastifyInstance, FastifyRequest, FastifySchema } from 'fastify';
import Type, { type TObject, type TSchema } from 'typebox';
import type { Subject } from '#acl';
import {
  type AuditRequester,
  AuthorizationError,
  actorOf,
  type ExtensionHost,
  type HttpServerContext,
} from '#master';
import { BridgeError, type BridgeErrorCode } from '../errors.ts';
import type { RegistrationOwner, RegistrationsApi } from '../registrations.ts';
import { ownerNameOf, tokenHolderOf } from './http-caller.ts';
import { describeRoute } from './route-schema.ts';

const strict = { additionalProperties: false };

type Operation = 'add' | 'replace' | 'list' | 'show' | 'remove';

/** A registration that was read, and the minions that its owner must have a rule for. */
interface ReadRegistration<Registration> {
  readonly registration: Registration;
  /** `undefined`: only a rule for any minion permits it. */
  readonly minions: readonly string[] | undefined;
}

/** Registrations of one kind, as their routes need them. */
export interface RegistrationRoutes<Registration, Info, Details> {
  /** Name of the collection in paths, for example `stacks`. */
  readonly collection: string;
  /** Field that names a registration. */
  readonly key: 'alias' | 'name';
  /** Right to register, as rules of the action `command` call it. */
  readonly right: string;
  /** Name of the rule in audit records by which owners use what is theirs. */
  readonly rule: string;
  /** Code of a body that is not a map. */
  readonly formError: BridgeErrorCode;
  readonly bodyLimit: number;
  /** Query fields that tell registrations of one name apart. */
  readonly query?: Readonly<Record<string, TSchema>>;
  readonly summaries: Readonly<Record<Operation, string>>;
  readonly body: TObject;
  readonly info: TSchema;
  readonly details: TSchema;
  /** Reads a registration of this subject. @throws BridgeError */
  readonly read: (given: object, subject: Subject) => ReadRegistration<Registration>;
  /** Returns the interface for a subject, in whose name audit records are. */
  readonly as: (
    requester: AuditRequester,
    subject: Subject,
  ) => RegistrationsApi<Registration, Info, Details>;
}

/** A service that asks for its own registrations. */
interface OwnRegistrations<Api> {
  readonly api: Api;
  readonly by: AuditRequester;
  /** Owner, and the query fields that were given. */
  readonly of: RegistrationOwner & { readonly owner: string };
}

/**
 * `POST` to the collection and `PUT` to a name in it (replaces), `GET` the collection, `GET` and
 * `DELETE` a name. Registering requires the kind's right within all minions that it names.
 * @returns a function that finds the registrations of the service that sends a request
 */
export function addRegistrationRoutes<Registration, Info, Details>(
  app: FastifyInstance,
  server: HttpServerContext,
  host: Pick<ExtensionHost, 'decide' | 'holdToken'>,
  kind: RegistrationRoutes<Registration, Info, Details>,
): (
  request: FastifyRequest,
) => Promise<OwnRegistrations<RegistrationsApi<Registration, Info, Details>>> {
  const { collection, key, right, bodyLimit } = kind;
  const schemas = schemasOf(kind);
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
  const add = async (request: FastifyRequest, given: object, replaces: boolean): Promise<Info> => {
    const { subject, policy, stop } = await tokenHolderOf(request, server, host);
    stop();
    const { registration, minions } = kind.read(given, subject);
    const resource = {
      call: { fun: right, args: [], kwargs: new Map<string, string>() },
      ...(minions === undefined ? {} : { minions }),
    };
    const { effect, rule } = host.decide({ subject, action: 'command', resource }, policy);
    if (effect !== 'allow') {
      throw new AuthorizationError(`no rule permits ${right} for all of these minions`);
    }
    const api = kind.as({ who: actorOf(subject), rule }, subject);
    return api.add(registration, { owner: ownerNameOf(subject), replaces });
  };
  const mapIn = ({ body }: FastifyRequest): object => {
    if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body;
    throw new BridgeError(kind.formError, 'the body: expected a map');
  };
  const one = `/${collection}/:${key}`;
  app.post(`/${collection}`, { bodyLimit, schema: schemas.add }, (request) =>
    add(request, mapIn(request), false),
  );
  app.put(one, { bodyLimit, schema: schemas.replace }, (request) =>
    add(request, { ...mapIn(request), [key]: nameIn(request, key) }, true),
  );
  app.get(`/${collection}`, { schema: schemas.list }, async (request) => {
    const { api, of } = await owned(request);
    return api.list({ owner: of.owner });
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

/** Returns the name of a registration in the path of a request. */
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
  // The name is in the path.
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
