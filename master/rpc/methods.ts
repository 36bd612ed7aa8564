/**
 * The method table: the one declaration of each method of the master's interface outside of its
 * process. Server, access check, client, OpenAPI and docs/rpc.md come from it; it does not compile
 * when it differs from {@link MasterApi} or {@link UserApi}.
 */

import type { Static, TArrayOptions, TSchema, TUnsafe } from 'typebox';
import Type from 'typebox';
import type { PolicyRule } from '#acl';
import type { WireMap, WireValue } from '#minion-protocol';
import {
  type AuditDetails,
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
import { liveStreamMethod, method, streamMethod } from './declare-method.ts';

/** The methods of a table by their names on the wire: `keys.list`. */
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
    include: Type.Optional(listOf(State)),
    state: Type.Optional(State),
  },
  strict,
);
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
  kwarg: Type.Optional(Type.Record(Type.String(), AnyValue)),
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
    arg: Type.Optional(listOf(AnyValue)),
    kwarg: Type.Optional(Type.Record(Type.String(), AnyValue)),
    user: Type.Optional(Text),
    jid: Type.Optional(Text),
    timeoutSeconds: Type.Optional(Seconds),
    dropUnknown: Type.Optional(Type.Boolean()),
    ...asUser,
  },
  strict,
);
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
    tokenExpireSeconds: Type.Optional(Seconds),
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
    match: Type.Optional(Type.Union([Text, listOf(Text, { maxItems: 64 })])),
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
      groups: listOf(Text),
      eauth: Type.Optional(Text),
    },
    strict,
  ),
  Type.Object(
    {
      kind: Type.Literal('project'),
      project: KeystoneEntity,
      user: KeystoneEntity,
      roles: listOf(Text),
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
    arg: Type.Optional(listOf(Text)),
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

/** The interface of whoever the token is of, or the master's own. */
function of(api: InProcessApi, token: string | undefined): InProcessApi | UserApi {
  return token === undefined ? api : api.asUser(token);
}

/** What the table has the methods of: all but `asUser`, and what a token's user asks of themselves. */
export type CallableApi = Omit<MasterApi, 'asUser'> & {
  readonly acl: Pick<UserApi, 'permits'>;
  /** @internal */
  readonly users: Pick<UserApi, 'requireFullRights' | 'describeMaster'>;
};

/** The pattern, and the keys that it meant. */
const keyRecord = {
  done: ({ match }: KeySelection, changes: readonly KeyChange[]): AuditDetails => ({
    what: match,
    ...named(changes.map(({ id }) => id)),
  }),
  failed: ({ match }: KeySelection): AuditDetails => ({ what: match, on: [] }),
};

/** It has the jid and the minions. */
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
  docs: method({
    isIdempotent: true,
    parameters: Type.Object({ prefix: Type.Optional(Text) }, strict),
    args: (prefix?: string) => (prefix === undefined ? {} : { prefix }),
    call: (api, { prefix }) => api[kind].docs(prefix),
  }),
});

const ofToken = {
  parameters: Token,
  access: 'anybody',
  args: (token: string) => ({ token }),
} as const;

/** Every method, in rooms as the interface has them. */
export const rpcTable: RpcTableOf<CallableApi> = {
  status: method({ isIdempotent: true, parameters: Nothing, call: (api) => api.status() }),
  metrics: method({ isIdempotent: true, parameters: Nothing, call: (api) => api.metrics() }),
  minions: method({ isIdempotent: true, parameters: Nothing, call: (api) => api.minions() }),
  presence: method({ isIdempotent: true, parameters: Nothing, call: (api) => api.presence() }),
  keys: {
    list: method({
      isIdempotent: true,
      parameters: Type.Object({ state: Type.Optional(State) }, strict),
      call: (api, p) => api.keys.list(p),
    }),
    local: method({ isIdempotent: true, parameters: Nothing, call: (api) => api.keys.local() }),
    accept: method({
      isIdempotent: true,
      parameters: Selection,
      call: (api, p, _, by) => api.keys.accept(p, by),
      audit: { action: 'key.accept', ...keyRecord },
    }),
    reject: method({
      isIdempotent: true,
      parameters: Selection,
      call: (api, p, _, by) => api.keys.reject(p, by),
      audit: { action: 'key.reject', ...keyRecord },
    }),
    delete: method({
      isIdempotent: true,
      parameters: Selection,
      call: (api, p, _, by) => api.keys.delete(p, by),
      audit: { action: 'key.delete', ...keyRecord },
    }),
    create: method({
      parameters: Type.Object(
        {
          id: Text,
          bits: Type.Optional(Type.Integer()),
          force: Type.Optional(Type.Boolean()),
          ...asUser,
        },
        strict,
      ),
      access: 'user',
      call: (api, { token, ...request }, _, by) => of(api, token).keys.create(request, by),
      audit: {
        action: 'key.create',
        done: ({ id }, created) => ({ what: id, on: created === null ? [] : [id] }),
        failed: ({ id }) => ({ what: id }),
      },
    }),
    unpin: method({
      isIdempotent: true,
      parameters: Type.Object({ id: Text }, strict),
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
      parameters: Type.Object({ jid: Text, ...asUser }, strict),
      args: (jid: string) => ({ jid }),
      access: 'user',
      isIdempotent: true,
      call: (api, { jid, token }, signal) => of(api, token).jobs.follow(jid, signal),
    }),
    list: method({ isIdempotent: true, parameters: JobList, call: (api, p) => api.jobs.list(p) }),
    active: method({ isIdempotent: true, parameters: Nothing, call: (api) => api.jobs.active() }),
    show: method({
      isIdempotent: true,
      parameters: JobId,
      args: (jid: string) => ({ jid }),
      call: (api, { jid }) => api.jobs.show(jid),
    }),
    plan: method({
      isIdempotent: true,
      parameters: Type.Object(target, strict),
      call: (api, p) => api.jobs.plan(p),
    }),
  },
  events: {
    subscribe: liveStreamMethod({
      parameters: Events,
      access: 'user',
      call: (api, { token, ...p }, signal) => of(api, token).events.subscribe(p, signal),
    }),
    fire: method({
      parameters: Type.Object({ tag: Text, data: AnyMap, ...asUser }, strict),
      args: (tag: string, data: WireMap) => ({ tag, data }),
      access: 'user',
      call: (api, { token, tag, data }, _, by) => of(api, token).events.fire(tag, data, by),
      audit: { action: 'fire', permitted: ({ tag }) => tag },
    }),
    denials: method({
      isIdempotent: true,
      parameters: Nothing,
      call: (api) => api.events.denials(),
    }),
  },
  runners: functionsOf('runners', 'runner.run'),
  wheel: functionsOf('wheel', 'wheel.run'),
  store: {
    backup: method({
      parameters: Type.Object({ target: Text }, strict),
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
    status: method({
      isIdempotent: true,
      parameters: Nothing,
      call: (api) => api.cluster.status(),
    }),
    ticket: method({
      parameters: Type.Object(
        { seconds: Type.Optional(Type.Integer({ minimum: 1, maximum: 604_800 })) },
        strict,
      ),
      access: 'host',
      call: (api, p, _, by) => api.cluster.ticket(p, by),
      audit: { action: 'cluster.ticket', done: () => ({}), failed: () => ({}) },
    }),
    remove: method({
      isIdempotent: true,
      parameters: Type.Object({ member: Text }, strict),
      access: 'host',
      call: (api, p, _, by) => api.cluster.remove(p, by),
      audit: {
        action: 'cluster.remove',
        done: ({ member }) => ({ what: member }),
        failed: ({ member }) => ({ what: member }),
      },
    }),
    drain: method({
      isIdempotent: true,
      parameters: Type.Object(
        { seconds: Type.Optional(Type.Integer({ minimum: 0, maximum: 86_400 })) },
        strict,
      ),
      access: 'host',
      call: (api, p, _, by) => api.cluster.drain(p, by),
      audit: { action: 'cluster.drain', done: () => ({}), failed: () => ({}) },
    }),
    resume: method({
      isIdempotent: true,
      parameters: Nothing,
      access: 'host',
      call: (api, _, _signal, by) => api.cluster.resume(by),
      audit: { action: 'cluster.resume', done: () => ({}), failed: () => ({}) },
    }),
  },
  logins: {
    login: method({
      isIdempotent: true,
      parameters: LoginForm,
      access: 'anybody',
      call: (api, p) => api.logins.login(p),
      audit: { action: 'login', writtenBy: 'users' },
    }),
    identify: method({
      isIdempotent: true,
      ...ofToken,
      call: (api, { token }) => api.logins.identify(token),
    }),
    logout: method({
      isIdempotent: true,
      ...ofToken,
      call: (api, { token }) => api.logins.logout(token),
      audit: { action: 'token.end', writtenBy: 'users' },
    }),
    list: method({ isIdempotent: true, parameters: Nothing, call: (api) => api.logins.list() }),
    revoke: method({
      isIdempotent: true,
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
    requireFullRights: method({
      isIdempotent: true,
      parameters: Type.Object({ token: Text, what: Text }, strict),
      args: (what: string) => ({ what }),
      access: 'user',
      call: (api, { token, what }) => api.asUser(token).requireFullRights(what),
      audit: { action: 'interface', writtenBy: 'users' },
    }),
    describeMaster: method({
      isIdempotent: true,
      parameters: Token,
      args: () => ({}),
      access: 'user',
      call: (api, { token }) => api.asUser(token).describeMaster(),
    }),
  },
  acl: {
    explain: method({
      isIdempotent: true,
      parameters: Explain,
      call: (api, p) => api.acl.explain(p),
    }),
    permits: method({
      isIdempotent: true,
      parameters: Type.Object({ token: Text, action: UserAction, name: Text }, strict),
      args: (action: Static<typeof UserAction>, name: string) => ({ action, name }),
      access: 'user',
      call: (api, { token, action, name }) => api.asUser(token).permits(action, name),
    }),
    learn: method({
      isIdempotent: true,
      parameters: Type.Object(
        { since: Type.Optional(Seconds), generalise: Type.Optional(Type.Boolean()) },
        strict,
      ),
      call: (api, p) => api.acl.learn(p),
    }),
    replay: method({
      isIdempotent: true,
      parameters: Type.Object(
        { rules: listOf(Type.Unsafe<PolicyRule>(RuleForm)), since: Type.Optional(Seconds) },
        strict,
      ),
      call: (api, p) => api.acl.replay(p),
    }),
    reload: method({
      isIdempotent: true,
      parameters: Nothing,
      call: (api, _, _signal, by) => api.acl.reload(by),
      audit: {
        action: 'policy.reload',
        done: (_, { applied }) => ({ what: applied.join(', ') }),
        failed: () => ({ detail: 'refused; what was in force stays' }),
      },
    }),
    forget: method({
      isIdempotent: true,
      parameters: Nothing,
      call: (api, _, _signal, by) => api.acl.forget(by),
      audit: { action: 'policy.forget', done: () => ({}) },
    }),
  },
  audit: {
    flush: method({ isIdempotent: true, parameters: Nothing, call: (api) => api.audit.flush() }),
  },
  reactions: {
    list: method({ isIdempotent: true, parameters: Nothing, call: (api) => api.reactions.list() }),
    show: method({
      isIdempotent: true,
      parameters: Type.Object({ name: Text }, strict),
      args: (name: string) => ({ name }),
      call: (api, { name }) => api.reactions.show(name),
    }),
    runs: method({
      isIdempotent: true,
      parameters: Type.Object(
        { reaction: Type.Optional(Text), limit: Type.Optional(Type.Integer({ minimum: 1 })) },
        strict,
      ),
      call: (api, p) => api.reactions.runs(p),
    }),
  },
  pillar: {
    show: method({
      isIdempotent: true,
      parameters: OfPillar,
      call: (api, p) => api.pillar.show(p),
    }),
    explain: method({
      isIdempotent: true,
      parameters: Type.Object({ ...pillarFields, key: Type.Optional(Text) }, strict),
      call: (api, p) => api.pillar.explain(p),
    }),
    diff: method({
      isIdempotent: true,
      parameters: OfPillar,
      call: (api, p) => api.pillar.diff(p),
    }),
  },
};

/** The same by name, as the server finds them. */
export const rpcMethods: ReadonlyMap<string, RpcMethod> = namedMethods(rpcTable);

/** Methods whose parameter `user` says who asked for what is started. */
export const methodsWithUser: ReadonlySet<string> = new Set(
  [...rpcMethods].flatMap(([name, { access, parameters }]) =>
    access === 'user' && 'user' in Object(Object(parameters).properties) ? [name] : [],
  ),
);
