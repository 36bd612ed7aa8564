/**
 * The table of RPC methods: the only place that declares the remote methods of the master's
 * interface. The server, the access check, the client, the OpenAPI document and docs/rpc.md are
 * derived from it. The compiler rejects the table if it differs from {@link MasterApi} or
 * {@link UserApi}.
 */

import type { Static, TArrayOptions, TObject, TProperties, TSchema, TUnsafe } from 'typebox';
import Type from 'typebox';
import type { PolicyRule } from '#acl';
import type { WireMap, WireValue } from '#minion-protocol';
import {
  type AuditDetails,
  explainActions,
  type InProcessApi,
  isRpcMethod,
  type KeyChange,
  type KeySelection,
  type MasterApi,
  type RpcMethod,
  type RpcTable,
  type RpcTableOf,
  type UserApi,
} from '../api/index.ts';
import { named } from '../audit/index.ts';
import { liveStreamMethod, method, query, streamMethod } from './declare-method.ts';

/** Returns the methods of a table by their names in calls, for example `keys.list`. */
export function namedMethods(table: RpcTable, prefix = ''): ReadonlyMap<string, RpcMethod> {
  return new Map(
    Object.entries(table).flatMap(([name, entry]): (readonly [string, RpcMethod])[] =>
      isRpcMethod(entry)
        ? [[`${prefix}${name}`, entry]]
        : [...namedMethods(entry, `${prefix}${name}.`)],
    ),
  );
}

const AnyValue = Type.Unsafe<WireValue>(Type.Unknown());
const AnyMap = Type.Unsafe<WireMap>(Type.Object({}));
const Text = Type.String({ maxLength: 65_536 });
const listOf = <S extends TSchema>(
  item: S,
  options?: TArrayOptions,
): TUnsafe<readonly Static<S>[]> => Type.Unsafe<readonly Static<S>[]>(Type.Array(item, options));
/** Returns the schema of an object that has no properties except these. */
const record = <P extends TProperties>(fields: P): TObject<P> =>
  Type.Object(fields, { additionalProperties: false });
const oneOf = <const V extends readonly string[]>(...values: V): TUnsafe<V[number]> =>
  Type.Unsafe<V[number]>(Type.Union(values.map((value) => Type.Literal(value))));
const State = oneOf('accepted', 'denied', 'pending', 'rejected');

const Nothing = record({});
const KeyGlob = Type.String({ minLength: 1, maxLength: 1024 });
const Selection = record({
  match: Type.Union([KeyGlob, listOf(KeyGlob, { minItems: 1, maxItems: 10_000 })]),
  fingerprint: Type.Optional(Text),
  include: Type.Optional(listOf(State)),
  state: Type.Optional(State),
});
const target = {
  tgt: Type.Union([Text, listOf(Text)]),
  tgtType: Type.Optional(Text),
  delimiter: Type.Optional(Text),
};
const Seconds = Type.Number({ minimum: 0 });
const publishFields = {
  ...target,
  fun: Type.Union([Text, listOf(Text)]),
  arg: Type.Optional(listOf(AnyValue)),
  kwarg: Type.Optional(AnyMap),
  user: Type.Optional(Text),
  ret: Type.Optional(Text),
  metadata: Type.Optional(AnyMap),
  startEvent: Type.Optional(Type.Boolean()),
  jid: Type.Optional(Text),
};
const runFields = {
  ...publishFields,
  timeoutSeconds: Type.Optional(Seconds),
  gatherJobTimeoutSeconds: Type.Optional(Seconds),
  patienceSeconds: Type.Optional(Seconds),
  subset: Type.Optional(Type.Integer({ minimum: 1 })),
};
/**
 * Optional parameter `token` of calls in the name of a user. With a token, the call has the rights
 * of this user. Without it, the call has the master's own rights.
 */
const asUser = { token: Type.Optional(Text) };
const Publish = record({ ...publishFields, ...asUser });
const Run = record({ ...runFields, ...asUser });
const Batch = record({
  ...runFields,
  ...asUser,
  size: Type.Union([Type.Integer({ minimum: 1 }), Text]),
  waitSeconds: Type.Optional(Seconds),
  failHard: Type.Optional(Type.Boolean()),
});
const JobList = record({ limit: Type.Optional(Type.Integer({ minimum: 1 })) });
const Call = record({
  fun: Text,
  arg: Type.Optional(listOf(AnyValue)),
  kwarg: Type.Optional(AnyMap),
  user: Type.Optional(Text),
  jid: Type.Optional(Text),
  timeoutSeconds: Type.Optional(Seconds),
  dropUnknown: Type.Optional(Type.Boolean()),
  ...asUser,
});
const pillarFields = {
  minion: Text,
  saltenv: Type.Optional(Text),
  pillarenv: Type.Optional(Text),
};
const OfPillar = record(pillarFields);
const LoginForm = record({
  username: Text,
  password: Text,
  eauth: Text,
  tokenExpireSeconds: Type.Optional(Seconds),
  source: Type.Optional(Text),
});
const Token = record({ token: Text });
const Tokens = record({
  id: Type.Optional(Text),
  user: Type.Optional(Text),
  eauth: Type.Optional(Text),
});
const Events = record({
  match: Type.Optional(Type.Union([Text, listOf(Text, { maxItems: 64 })])),
  after: Type.Optional(Text),
  ...asUser,
});
const JobId = record({ jid: Text });

const KeystoneEntity = record({ id: Text, name: Text, domain: record({ id: Text, name: Text }) });
const Subject = Type.Union([
  record({ kind: Type.Literal('minion'), id: Text }),
  record({
    kind: Type.Literal('user'),
    name: Text,
    groups: listOf(Text),
    eauth: Type.Optional(Text),
  }),
  record({
    kind: Type.Literal('project'),
    project: KeystoneEntity,
    user: KeystoneEntity,
    roles: listOf(Text),
  }),
  record({ kind: oneOf('service', 'token'), name: Text }),
]);
const Explain = record({
  subject: Subject,
  action: oneOf(...explainActions),
  resource: Text,
  arg: Type.Optional(listOf(Text)),
  target: Type.Optional(record(target)),
  data: Type.Optional(AnyValue),
  bytes: Type.Optional(Type.Integer({ minimum: 0 })),
  owner: Type.Optional(Text),
});

const UserAction = oneOf('runner', 'wheel', 'subscribe');

/**
 * Schema of a policy rule that checks only the name and action. The parser of the policy checks the
 * rest.
 */
const RuleForm = Type.Object({ name: Text, action: Text });

/**
 * Returns the master's interface, limited to the rights of the user that the token belongs to.
 * Without a token, returns the unlimited interface.
 */
function of(api: InProcessApi, token: string | undefined): InProcessApi | UserApi {
  return token === undefined ? api : api.asUser(token);
}

/**
 * Interface that has all methods of the table: {@link MasterApi} without `asUser`, but with the
 * methods that check a user's rights.
 */
export type CallableApi = Omit<MasterApi, 'asUser'> & {
  readonly acl: Pick<UserApi, 'permits'>;
  /**
   * Methods that only programs of this package call.
   * @internal
   */
  readonly users: Pick<UserApi, 'requireFullRights' | 'describeMaster'>;
};

/**
 * Definition of the audit record of methods that change keys. The record contains the patterns that
 * select keys, and the ids of the changed keys.
 */
const keyRecord = {
  done: ({ match }: KeySelection, changes: readonly KeyChange[]): AuditDetails => ({
    what: [match].flat().join(','),
    ...named(changes.map(({ id }) => id)),
  }),
  failed: ({ match }: KeySelection): AuditDetails => ({ what: [match].flat().join(','), on: [] }),
};

/**
 * Definition of the audit record of methods that publish jobs. The jobs module itself writes the
 * record, with the jid and the minions.
 */
const jobRecord = { action: 'job.publish', writtenBy: 'jobs' };

const functionsOf = (
  kind: 'runners' | 'wheel',
  action: string,
): RpcTableOf<MasterApi>['runners'] => ({
  run: method({
    parameters: Call,
    access: 'user',
    call: (api, { token, ...call }) => of(api, token)[kind].run(call),
    audit: { action, writtenBy: 'functions' },
  }),
  start: method({
    parameters: Call,
    access: 'user',
    call: (api, { token, ...call }) => of(api, token)[kind].start(call),
    audit: { action, writtenBy: 'functions' },
  }),
  docs: query({
    parameters: record({ prefix: Type.Optional(Text) }),
    args: (prefix?: string) => (prefix === undefined ? {} : { prefix }),
    call: (api, { prefix }) => api[kind].docs(prefix),
  }),
});

const ofToken = {
  parameters: Token,
  access: 'anybody',
  args: (token: string) => ({ token }),
} as const;

/** All RPC methods of the master, in the same groups as in the master's interface. */
export const rpcTable: RpcTableOf<CallableApi> = {
  status: query({ parameters: Nothing, call: (api) => api.status() }),
  metrics: query({ parameters: Nothing, call: (api) => api.metrics() }),
  minions: query({ parameters: Nothing, call: (api) => api.minions() }),
  presence: query({ parameters: Nothing, call: (api) => api.presence() }),
  keys: {
    list: query({
      parameters: record({ state: Type.Optional(State) }),
      call: (api, p) => api.keys.list(p),
    }),
    local: query({ parameters: Nothing, call: (api) => api.keys.local() }),
    accept: query({
      parameters: Selection,
      call: (api, p, _, by) => api.keys.accept(p, by),
      audit: { action: 'key.accept', ...keyRecord },
    }),
    reject: query({
      parameters: Selection,
      call: (api, p, _, by) => api.keys.reject(p, by),
      audit: { action: 'key.reject', ...keyRecord },
    }),
    delete: query({
      parameters: Selection,
      call: (api, p, _, by) => api.keys.delete(p, by),
      audit: { action: 'key.delete', ...keyRecord },
    }),
    create: method({
      parameters: record({
        id: Text,
        bits: Type.Optional(Type.Integer()),
        force: Type.Optional(Type.Boolean()),
        ...asUser,
      }),
      access: 'user',
      call: (api, { token, ...request }, _, by) => of(api, token).keys.create(request, by),
      audit: {
        action: 'key.create',
        done: ({ id }, created) => ({ what: id, on: created === null ? [] : [id] }),
        failed: ({ id }) => ({ what: id }),
      },
    }),
    unpin: query({
      parameters: record({ id: Text }),
      args: (id: string) => ({ id }),
      call: (api, { id }, _, by) => api.keys.unpin(id, by),
      audit: { action: 'key.unpin', done: ({ id }) => ({ what: id, on: [id] }) },
    }),
  },
  jobs: {
    publish: method({
      parameters: Publish,
      access: 'user',
      call: (api, { token, ...request }) => of(api, token).jobs.publish(request),
      audit: jobRecord,
    }),
    run: streamMethod({
      parameters: Run,
      access: 'user',
      call: (api, { token, ...request }, signal) => of(api, token).jobs.run(request, signal),
      audit: jobRecord,
    }),
    batch: streamMethod({
      parameters: Batch,
      access: 'user',
      call: (api, { token, ...request }, signal) => of(api, token).jobs.batch(request, signal),
      audit: jobRecord,
    }),
    follow: streamMethod({
      parameters: record({ jid: Text, ...asUser }),
      args: (jid: string) => ({ jid }),
      access: 'user',
      isIdempotent: true,
      call: (api, { jid, token }, signal) => of(api, token).jobs.follow(jid, signal),
    }),
    list: query({ parameters: JobList, call: (api, p) => api.jobs.list(p) }),
    active: query({ parameters: Nothing, call: (api) => api.jobs.active() }),
    show: query({
      parameters: JobId,
      args: (jid: string) => ({ jid }),
      call: (api, { jid }) => api.jobs.show(jid),
    }),
    plan: query({ parameters: record(target), call: (api, p) => api.jobs.plan(p) }),
  },
  events: {
    subscribe: liveStreamMethod({
      parameters: Events,
      access: 'user',
      call: (api, { token, ...p }, signal) => of(api, token).events.subscribe(p, signal),
    }),
    fire: method({
      parameters: record({ tag: Text, data: AnyMap, ...asUser }),
      args: (tag: string, data: WireMap) => ({ tag, data }),
      access: 'user',
      call: (api, { token, tag, data }, _, by) => of(api, token).events.fire(tag, data, by),
      audit: { action: 'fire', permitted: ({ tag }) => tag },
    }),
    denials: query({ parameters: Nothing, call: (api) => api.events.denials() }),
  },
  runners: functionsOf('runners', 'runner.run'),
  wheel: functionsOf('wheel', 'wheel.run'),
  store: {
    backup: method({
      parameters: record({ target: Text }),
      args: (target: string) => ({ target }),
      access: 'host',
      call: (api, { target }) => api.store.backup(target),
      audit: {
        action: 'store.backup',
        done: ({ target }) => ({ what: target }),
        failed: ({ target }) => ({ what: target }),
      },
    }),
  },
  cluster: {
    status: query({ parameters: Nothing, call: (api) => api.cluster.status() }),
    ticket: method({
      parameters: record({
        seconds: Type.Optional(Type.Integer({ minimum: 1, maximum: 604_800 })),
      }),
      access: 'host',
      call: (api, p, _, by) => api.cluster.ticket(p, by),
      audit: { action: 'cluster.ticket', done: () => ({}), failed: () => ({}) },
    }),
    remove: query({
      parameters: record({ member: Text }),
      access: 'host',
      call: (api, p, _, by) => api.cluster.remove(p, by),
      audit: {
        action: 'cluster.remove',
        done: ({ member }) => ({ what: member }),
        failed: ({ member }) => ({ what: member }),
      },
    }),
    drain: query({
      parameters: record({ seconds: Type.Optional(Type.Integer({ minimum: 0, maximum: 86_400 })) }),
      access: 'host',
      call: (api, p, _, by) => api.cluster.drain(p, by),
      audit: { action: 'cluster.drain', done: () => ({}), failed: () => ({}) },
    }),
    resume: query({
      parameters: Nothing,
      access: 'host',
      call: (api, _, _signal, by) => api.cluster.resume(by),
      audit: { action: 'cluster.resume', done: () => ({}), failed: () => ({}) },
    }),
  },
  logins: {
    login: query({
      parameters: LoginForm,
      access: 'anybody',
      call: (api, p) => api.logins.login(p),
      audit: { action: 'login', writtenBy: 'users' },
    }),
    identify: query({ ...ofToken, call: (api, { token }) => api.logins.identify(token) }),
    logout: query({
      ...ofToken,
      call: (api, { token }) => api.logins.logout(token),
      audit: { action: 'token.end', writtenBy: 'users' },
    }),
    list: query({ parameters: Nothing, call: (api) => api.logins.list() }),
    revoke: query({
      parameters: Tokens,
      call: (api, p, _, by) => api.logins.revoke(p, by),
      audit: { action: 'token.revoke', writtenBy: 'users' },
    }),
    follow: streamMethod({
      isIdempotent: true,
      ...ofToken,
      call: (api, { token }, signal) => api.logins.follow(token, signal),
    }),
  },
  users: {
    requireFullRights: query({
      parameters: record({ token: Text, what: Text }),
      args: (what: string) => ({ what }),
      access: 'user',
      call: (api, { token, what }) => api.asUser(token).requireFullRights(what),
      audit: { action: 'interface', writtenBy: 'users' },
    }),
    describeMaster: query({
      parameters: Token,
      args: () => ({}),
      access: 'user',
      call: (api, { token }) => api.asUser(token).describeMaster(),
    }),
  },
  acl: {
    explain: query({ parameters: Explain, call: (api, p) => api.acl.explain(p) }),
    permits: query({
      parameters: record({ token: Text, action: UserAction, name: Text }),
      args: (action: Static<typeof UserAction>, name: string) => ({ action, name }),
      access: 'user',
      call: (api, { token, action, name }) => api.asUser(token).permits(action, name),
    }),
    learn: query({
      parameters: record({
        since: Type.Optional(Seconds),
        generalise: Type.Optional(Type.Boolean()),
      }),
      call: (api, p) => api.acl.learn(p),
    }),
    replay: query({
      parameters: record({
        rules: listOf(Type.Unsafe<PolicyRule>(RuleForm)),
        since: Type.Optional(Seconds),
      }),
      call: (api, p) => api.acl.replay(p),
    }),
    reload: query({
      parameters: Nothing,
      call: (api, _, _signal, by) => api.acl.reload(by),
      audit: {
        action: 'policy.reload',
        done: (_, { applied }) => ({ what: applied.join(', ') }),
        failed: () => ({ detail: 'rejected; the previous policy stays active' }),
      },
    }),
    forget: query({
      parameters: Nothing,
      call: (api, _, _signal, by) => api.acl.forget(by),
      audit: { action: 'policy.forget', done: () => ({}) },
    }),
  },
  audit: {
    flush: query({ parameters: Nothing, call: (api) => api.audit.flush() }),
  },
  reactions: {
    list: query({ parameters: Nothing, call: (api) => api.reactions.list() }),
    show: query({
      parameters: record({ name: Text }),
      args: (name: string) => ({ name }),
      call: (api, { name }) => api.reactions.show(name),
    }),
    runs: query({
      parameters: record({
        reaction: Type.Optional(Text),
        limit: Type.Optional(Type.Integer({ minimum: 1 })),
      }),
      call: (api, p) => api.reactions.runs(p),
    }),
  },
  pillar: {
    show: query({ parameters: OfPillar, call: (api, p) => api.pillar.show(p) }),
    explain: query({
      parameters: record({ ...pillarFields, key: Type.Optional(Text) }),
      call: (api, p) => api.pillar.explain(p),
    }),
    diff: query({ parameters: OfPillar, call: (api, p) => api.pillar.diff(p) }),
    inputs: query({ parameters: record({}), call: (api) => api.pillar.inputs() }),
  },
};

/** All methods by their names in calls, for the server. */
export const rpcMethods: ReadonlyMap<string, RpcMethod> = namedMethods(rpcTable);

/**
 * Names of the methods that have a parameter `user`. This parameter names the user on whose behalf
 * the method starts a job or function.
 */
export const methodsWithUser: ReadonlySet<string> = new Set(
  [...rpcMethods].flatMap(([name, { access, parameters }]) =>
    access === 'user' && 'user' in Object(Object(parameters).properties) ? [name] : [],
  ),
);
