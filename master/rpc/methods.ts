/**
 * The interface as named methods: the parameters of each, whether it returns one value or a stream,
 * and who may call it over the network.
 */

import type { Static, TSchema } from 'typebox';
import Type from '#typebox';
import { Compile } from '#typebox/compile';
import type { PolicyRule } from '../../acl/index.ts';
import type { WireMap, WireValue } from '../../minion-protocol/index.ts';
import type { AuditRequester, MasterApi, RpcMethod, UserApi } from '../api/index.ts';

const AnyValue = Type.Unsafe<WireValue>(Type.Unknown());
const AnyMap = Type.Unsafe<WireMap>(Type.Object({}));
const Text = Type.String({ maxLength: 65_536 });
const strict = { additionalProperties: false };
const State = Type.Union([
  Type.Literal('accepted'),
  Type.Literal('denied'),
  Type.Literal('pending'),
  Type.Literal('rejected'),
]);

const Nothing = Type.Object({}, strict);
const Selection = Type.Object(
  {
    match: Type.String({ minLength: 1, maxLength: 1024 }),
    fingerprint: Type.Optional(Text),
    include: Type.Optional(Type.Array(State)),
    state: Type.Optional(State),
  },
  strict,
);
const target = {
  tgt: Type.Union([Text, Type.Array(Text)]),
  tgtType: Type.Optional(Text),
  delimiter: Type.Optional(Text),
};
const Seconds = Type.Number({ minimum: 0 });
const publishFields = {
  ...target,
  fun: Type.Union([Text, Type.Array(Text)]),
  arg: Type.Optional(Type.Array(AnyValue)),
  kwarg: Type.Optional(Type.Record(Type.String(), AnyValue)),
  user: Type.Optional(Text),
  ret: Type.Optional(Text),
  metadata: Type.Optional(AnyMap),
  jid: Type.Optional(Text),
};
const runFields = {
  ...publishFields,
  timeout: Type.Optional(Seconds),
  gatherJobTimeout: Type.Optional(Seconds),
  subset: Type.Optional(Type.Integer({ minimum: 1 })),
};
/** Whoever it is of asks, not the master's own user. */
const asUser = { token: Type.Optional(Text) };
const Publish = Type.Object({ ...publishFields, ...asUser }, strict);
const Run = Type.Object({ ...runFields, ...asUser }, strict);
const Batch = Type.Object(
  {
    ...runFields,
    ...asUser,
    size: Type.Union([Type.Integer({ minimum: 1 }), Text]),
    waitSeconds: Type.Optional(Seconds),
    failHard: Type.Optional(Type.Boolean()),
  },
  strict,
);
const JobList = Type.Object({ limit: Type.Optional(Type.Integer({ minimum: 1 })) }, strict);
const Call = Type.Object(
  {
    fun: Text,
    arg: Type.Optional(Type.Array(AnyValue)),
    kwarg: Type.Optional(Type.Record(Type.String(), AnyValue)),
    user: Type.Optional(Text),
    jid: Type.Optional(Text),
    timeout: Type.Optional(Seconds),
    dropUnknown: Type.Optional(Type.Boolean()),
    ...asUser,
  },
  strict,
);
const Prefix = Type.Object({ prefix: Type.Optional(Text) }, strict);
const pillarFields = {
  minion: Text,
  saltenv: Type.Optional(Text),
  pillarenv: Type.Optional(Text),
};
const OfPillar = Type.Object(pillarFields, strict);
const LoginForm = Type.Object(
  {
    username: Text,
    password: Text,
    eauth: Text,
    tokenExpire: Type.Optional(Seconds),
    source: Type.Optional(Text),
  },
  strict,
);
const Token = Type.Object({ token: Text }, strict);
const Tokens = Type.Object(
  { id: Type.Optional(Text), user: Type.Optional(Text), eauth: Type.Optional(Text) },
  strict,
);
const Events = Type.Object(
  {
    match: Type.Optional(Type.Union([Text, Type.Array(Text, { maxItems: 64 })])),
    after: Type.Optional(Text),
    ...asUser,
  },
  strict,
);
const JobId = Type.Object({ jid: Text }, strict);

const KeystoneEntity = Type.Object(
  { id: Text, name: Text, domain: Type.Object({ id: Text, name: Text }, strict) },
  strict,
);
const Subject = Type.Union([
  Type.Object({ kind: Type.Literal('minion'), id: Text }, strict),
  Type.Object(
    {
      kind: Type.Literal('user'),
      name: Text,
      groups: Type.Array(Text),
      eauth: Type.Optional(Text),
    },
    strict,
  ),
  Type.Object(
    {
      kind: Type.Literal('project'),
      project: KeystoneEntity,
      user: KeystoneEntity,
      roles: Type.Array(Text),
    },
    strict,
  ),
  Type.Object(
    { kind: Type.Union([Type.Literal('service'), Type.Literal('token')]), name: Text },
    strict,
  ),
]);
const Explain = Type.Object(
  {
    subject: Subject,
    action: Type.Union([
      Type.Literal('signal'),
      Type.Literal('publish'),
      Type.Literal('runner'),
      Type.Literal('wheel'),
      Type.Literal('command'),
      Type.Literal('mine'),
      Type.Literal('file-send'),
      Type.Literal('pillar'),
      Type.Literal('key'),
      Type.Literal('subscribe'),
    ]),
    resource: Text,
    arg: Type.Optional(Type.Array(Text)),
    target: Type.Optional(Type.Object(target, strict)),
    data: Type.Optional(AnyValue),
    bytes: Type.Optional(Type.Integer({ minimum: 0 })),
    owner: Type.Optional(Text),
  },
  strict,
);

const UserAction = Type.Union([
  Type.Literal('runner'),
  Type.Literal('wheel'),
  Type.Literal('subscribe'),
]);

/** More of a rule is looked at where it is read. */
const RuleForm = Type.Object({ name: Text, action: Text });

export interface MethodDefinition<S extends TSchema, R> {
  readonly parameters: S;
  /** See {@link RpcMethod.isLive}. */
  readonly isLive?: boolean;
  /** @param by who asks for it, for the audit log, where that is not the local interface */
  readonly call: (
    api: MasterApi,
    parameters: Static<S>,
    signal: AbortSignal,
    by?: AuditRequester,
  ) => R;
}

/** A method from its parameters' schema and what it calls. */
export function method<S extends TSchema>(
  definition: MethodDefinition<S, Promise<unknown> | AsyncIterable<unknown>>,
): RpcMethod {
  const check = Compile(definition.parameters);
  return {
    parameters: definition.parameters,
    isLive: definition.isLive ?? false,
    complaint: (parameters) => {
      const [first] = check.Errors(parameters);
      if (first === undefined) return undefined;
      const name = first.instancePath.slice(1).replaceAll('/', '.') || 'parameters';
      // What no schema describes is measured against the schema `false`.
      return first.keyword === 'boolean' ? `${name} is no parameter` : `${name} ${first.message}`;
    },
    invoke: (api, parameters, signal, by) =>
      definition.call(api, check.Parse(parameters), signal, by),
  };
}

interface ByToken {
  readonly token?: string;
}

function jobsOf(api: MasterApi, { token }: ByToken): UserApi['jobs'] {
  return token === undefined ? api.jobs : api.asUser(token).jobs;
}

function runnersOf(api: MasterApi, { token }: ByToken): UserApi['runners'] {
  return token === undefined ? api.runners : api.asUser(token).runners;
}

function wheelOf(api: MasterApi, { token }: ByToken): UserApi['wheel'] {
  return token === undefined ? api.wheel : api.asUser(token).wheel;
}

function eventsOf(api: MasterApi, { token }: ByToken): MasterApi['events'] | UserApi['events'] {
  return token === undefined ? api.events : api.asUser(token).events;
}

/** With who asks for it, for the audit log. */
function askedBy<T extends object>(
  parameters: T,
  by: AuditRequester | undefined,
): T & { readonly by?: AuditRequester } {
  return by === undefined ? parameters : { ...parameters, by };
}

function bare<T extends ByToken>({ token: _, ...parameters }: T): Omit<T, 'token'> {
  return parameters;
}

/** Every method of the local socket. */
export const rpcMethods: ReadonlyMap<string, RpcMethod> = new Map([
  ['status', method({ parameters: Nothing, call: (api) => api.status() })],
  ['metrics', method({ parameters: Nothing, call: (api) => api.metrics() })],
  ['minions', method({ parameters: Nothing, call: (api) => api.minions() })],
  ['presence', method({ parameters: Nothing, call: (api) => api.presence() })],
  [
    'keys.list',
    method({
      parameters: Type.Object({ state: Type.Optional(State) }, strict),
      call: (api, p) => api.keys.list(p),
    }),
  ],
  ['keys.local', method({ parameters: Nothing, call: (api) => api.keys.local() })],
  [
    'keys.accept',
    method({
      parameters: Selection,
      call: (api, p, _, by) => api.keys.accept(askedBy(p, by)),
    }),
  ],
  [
    'keys.reject',
    method({
      parameters: Selection,
      call: (api, p, _, by) => api.keys.reject(askedBy(p, by)),
    }),
  ],
  [
    'keys.delete',
    method({
      parameters: Selection,
      call: (api, p, _, by) => api.keys.delete(askedBy(p, by)),
    }),
  ],
  [
    'keys.create',
    method({
      parameters: Type.Object(
        {
          id: Text,
          bits: Type.Optional(Type.Integer()),
          force: Type.Optional(Type.Boolean()),
          ...asUser,
        },
        strict,
      ),
      call: (api, { token, ...request }, _, by) =>
        token === undefined
          ? api.keys.create(askedBy(request, by))
          : api.asUser(token).keys.create(request),
    }),
  ],
  [
    'keys.unpin',
    method({
      parameters: Type.Object({ id: Text }, strict),
      call: (api, { id }, _, by) => api.keys.unpin(id, by),
    }),
  ],
  [
    'jobs.publish',
    method({ parameters: Publish, call: (api, p) => jobsOf(api, p).publish(bare(p)) }),
  ],
  [
    'jobs.batch',
    method({ parameters: Batch, call: (api, p, end) => jobsOf(api, p).batch(bare(p), end) }),
  ],
  ['jobs.list', method({ parameters: JobList, call: (api, p) => api.jobs.list(p) })],
  ['jobs.underWay', method({ parameters: Nothing, call: (api) => api.jobs.underWay() })],
  ['jobs.show', method({ parameters: JobId, call: (api, { jid }) => api.jobs.show(jid) })],
  [
    'jobs.run',
    method({ parameters: Run, call: (api, p, end) => jobsOf(api, p).run(bare(p), end) }),
  ],
  [
    'jobs.plan',
    method({ parameters: Type.Object(target, strict), call: (api, p) => api.jobs.plan(p) }),
  ],
  [
    'events.subscribe',
    method({
      parameters: Events,
      isLive: true,
      call: (api, p, signal) => eventsOf(api, p).subscribe(bare(p), signal),
    }),
  ],
  [
    'events.fire',
    method({
      parameters: Type.Object({ tag: Text, data: AnyMap, ...asUser }, strict),
      call: (api, { token, tag, data }, _, by) =>
        token === undefined
          ? api.events.fire(tag, data, by)
          : api.asUser(token).events.fire(tag, data),
    }),
  ],
  ['runners.run', method({ parameters: Call, call: (api, p) => runnersOf(api, p).run(bare(p)) })],
  [
    'runners.start',
    method({ parameters: Call, call: (api, p) => runnersOf(api, p).start(bare(p)) }),
  ],
  [
    'runners.docs',
    method({ parameters: Prefix, call: (api, { prefix }) => api.runners.docs(prefix) }),
  ],
  ['wheel.run', method({ parameters: Call, call: (api, p) => wheelOf(api, p).run(bare(p)) })],
  ['wheel.start', method({ parameters: Call, call: (api, p) => wheelOf(api, p).start(bare(p)) })],
  ['wheel.docs', method({ parameters: Prefix, call: (api, { prefix }) => api.wheel.docs(prefix) })],
  [
    'store.backup',
    method({
      parameters: Type.Object({ target: Text }, strict),
      call: (api, { target }) => api.store.backup(target),
    }),
  ],
  ['logins.login', method({ parameters: LoginForm, call: (api, p) => api.logins.login(p) })],
  [
    'logins.identify',
    method({ parameters: Token, call: (api, { token }) => api.logins.identify(token) }),
  ],
  [
    'logins.logout',
    method({ parameters: Token, call: (api, { token }) => api.logins.logout(token) }),
  ],
  [
    'users.requireFullRights',
    method({
      parameters: Type.Object({ token: Text, what: Text }, strict),
      call: (api, { token, what }) => api.asUser(token).requireFullRights(what),
    }),
  ],
  ['logins.list', method({ parameters: Nothing, call: (api) => api.logins.list() })],
  [
    'logins.revoke',
    method({
      parameters: Tokens,
      call: (api, p, _, by) => api.logins.revoke(askedBy(p, by)),
    }),
  ],
  [
    'logins.follow',
    method({ parameters: Token, call: (api, { token }, end) => api.logins.follow(token, end) }),
  ],
  ['acl.explain', method({ parameters: Explain, call: (api, p) => api.acl.explain(p) })],
  [
    'acl.permits',
    method({
      parameters: Type.Object({ token: Text, action: UserAction, name: Text }, strict),
      call: (api, { token, action, name }) => api.asUser(token).permits(action, name),
    }),
  ],
  [
    'acl.learn',
    method({
      parameters: Type.Object(
        { since: Type.Optional(Seconds), generalise: Type.Optional(Type.Boolean()) },
        strict,
      ),
      call: (api, p) => api.acl.learn(p),
    }),
  ],
  [
    'acl.replay',
    method({
      parameters: Type.Object(
        { rules: Type.Array(Type.Unsafe<PolicyRule>(RuleForm)), since: Type.Optional(Seconds) },
        strict,
      ),
      call: (api, p) => api.acl.replay(p),
    }),
  ],
  [
    'acl.reload',
    method({ parameters: Nothing, call: (api, _, _signal, by) => api.acl.reload(by) }),
  ],
  ['acl.forget', method({ parameters: Nothing, call: (api) => api.acl.forget() })],
  ['audit.flush', method({ parameters: Nothing, call: (api) => api.audit.flush() })],
  ['reactions.list', method({ parameters: Nothing, call: (api) => api.reactions.list() })],
  [
    'reactions.show',
    method({
      parameters: Type.Object({ name: Text }, strict),
      call: (api, { name }) => api.reactions.show(name),
    }),
  ],
  [
    'reactions.runs',
    method({
      parameters: Type.Object(
        { reaction: Type.Optional(Text), limit: Type.Optional(Type.Integer({ minimum: 1 })) },
        strict,
      ),
      call: (api, p) => api.reactions.runs(p),
    }),
  ],
  ['pillar.show', method({ parameters: OfPillar, call: async (api, p) => api.pillar.show(p) })],
  [
    'pillar.explain',
    method({
      parameters: Type.Object({ ...pillarFields, key: Type.Optional(Text) }, strict),
      call: (api, p) => api.pillar.explain(p),
    }),
  ],
  ['pillar.diff', method({ parameters: OfPillar, call: (api, p) => api.pillar.diff(p) })],
  ['events.denials', method({ parameters: Nothing, call: (api) => api.events.denials() })],
]);

// Access over the network. The local socket checks no user.

/**
 * `anybody`: what it takes is a proof by itself. `user`: whoever has a token, by what the policy
 * lets them do. `everything`: whoever may do everything. `host`: nobody; it is about files of the
 * master's host.
 */
export type RpcAccess = 'anybody' | 'user' | 'everything' | 'host';

const exceptions: ReadonlyMap<string, RpcAccess> = new Map([
  ['logins.login', 'anybody'],
  ['logins.identify', 'anybody'],
  ['logins.logout', 'anybody'],
  ['logins.follow', 'anybody'],
  ['jobs.publish', 'user'],
  ['jobs.run', 'user'],
  ['jobs.batch', 'user'],
  ['runners.run', 'user'],
  ['runners.start', 'user'],
  ['wheel.run', 'user'],
  ['wheel.start', 'user'],
  ['keys.create', 'user'],
  ['events.subscribe', 'user'],
  ['events.fire', 'user'],
  ['users.requireFullRights', 'user'],
  ['acl.permits', 'user'],
  ['store.backup', 'host'],
]);

/** What a method that nobody thought of asks for is everything. */
export function rpcAccess(method: string): RpcAccess {
  return exceptions.get(method) ?? 'everything';
}
