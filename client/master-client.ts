import type {
  AuditRequester,
  BatchUpdate,
  CreatedKey,
  Denial,
  Explanation,
  FunctionResult,
  FunctionsApi,
  JobProgress,
  JobReceipt,
  JobReport,
  JobSummary,
  JobUpdate,
  KeyChange,
  KeyInfo,
  LearnedPolicy,
  LocalKeyInfo,
  Login,
  MasterApi,
  MasterEvent,
  MasterStatus,
  MetricFamily,
  MinionInfo,
  PillarDifference,
  PillarExplanation,
  PresentMinion,
  ReactionInfo,
  ReactionRun,
  ReloadReport,
  ReplayReport,
  StartedCall,
  StoredHead,
  TargetPlan,
  TokenInfo,
  UserApi,
} from '../master/index.ts';
import type { FactMap } from '../minion-protocol/index.ts';
import type { BackupReceipt } from '../store/index.ts';
import {
  type Connection,
  connectionTo,
  type LocalMaster,
  type RemoteMaster,
} from './connection.ts';
import { callOnce, callStream, openStream } from './rpc.ts';

/** Where the master is. */
export type MasterClientOptions = LocalMaster | RemoteMaster;

/**
 * A running master elsewhere, with the same interface as one in the process. Connects when it is
 * called. Over HTTPS, calls are those of the token's user: jobs, runners, wheel functions and
 * events by what the policy permits, everything else for who may do everything; `store.backup` is
 * for the master's host alone.
 * @throws TypeError for an address without TLS that is not this host's. RemoteError from each
 * call: the master's code, or ERR_SOCKET when none can be reached
 */
export function connectMaster(options: MasterClientOptions): MasterApi {
  const connection = connectionTo(options);
  return {
    keys: {
      list: (request = {}) => callOnce<readonly KeyInfo[]>(connection, 'keys.list', request),
      local: () => callOnce<readonly LocalKeyInfo[]>(connection, 'keys.local', {}),
      // Who asks is known to the master by the connection.
      accept: ({ by: _, ...selection }) =>
        callOnce<readonly KeyChange[]>(connection, 'keys.accept', selection),
      reject: ({ by: _, ...selection }) =>
        callOnce<readonly KeyChange[]>(connection, 'keys.reject', selection),
      delete: ({ by: _, ...selection }) =>
        callOnce<readonly KeyChange[]>(connection, 'keys.delete', selection),
      create: ({ by: _, ...request }) =>
        callOnce<CreatedKey | null>(connection, 'keys.create', request),
      unpin: async (id) => {
        await callOnce<null>(connection, 'keys.unpin', { id });
      },
    },
    jobs: {
      publish: (request) => callOnce<JobReceipt>(connection, 'jobs.publish', request),
      batch: (request, signal) =>
        callStream<BatchUpdate>(connection, 'jobs.batch', request, signal),
      list: (request = {}) => callOnce<readonly JobSummary[]>(connection, 'jobs.list', request),
      show: (jid) => callOnce<JobReport>(connection, 'jobs.show', { jid }),
      run: (request, signal) => callStream<JobUpdate>(connection, 'jobs.run', request, signal),
      underWay: () => callOnce<readonly JobProgress[]>(connection, 'jobs.underWay', {}),
      plan: (request) => callOnce<TargetPlan>(connection, 'jobs.plan', request),
    },
    events: {
      subscribe: (request = {}, signal) =>
        callStream<MasterEvent>(connection, 'events.subscribe', request, signal),
      fire: async (tag, data) => {
        await callOnce<null>(connection, 'events.fire', { tag, data });
      },
      denials: () => callOnce<readonly Denial[]>(connection, 'events.denials', {}),
    },
    acl: {
      explain: (request) => callOnce<Explanation>(connection, 'acl.explain', request),
      learn: (request = {}) => callOnce<LearnedPolicy>(connection, 'acl.learn', request),
      replay: (request) => callOnce<ReplayReport>(connection, 'acl.replay', request),
      reload: () => callOnce<ReloadReport>(connection, 'acl.reload', {}),
      forget: async () => {
        await callOnce<null>(connection, 'acl.forget', {});
      },
    },
    audit: { flush: () => callOnce<StoredHead | null>(connection, 'audit.flush', {}) },
    logins: {
      login: (request) => callOnce<Login>(connection, 'logins.login', request),
      identify: (token) => callOnce<TokenInfo>(connection, 'logins.identify', { token }),
      logout: (token) => callOnce<boolean>(connection, 'logins.logout', { token }),
      list: () => callOnce<readonly TokenInfo[]>(connection, 'logins.list', {}),
      revoke: ({ by: _, ...selection }) =>
        callOnce<readonly TokenInfo[]>(connection, 'logins.revoke', selection),
      follow: (token, signal) =>
        callStream<TokenInfo>(connection, 'logins.follow', { token }, signal),
    },
    asUser: (token) => asUser(connection, token),
    reactions: {
      list: () => callOnce<readonly ReactionInfo[]>(connection, 'reactions.list', {}),
      show: (name) => callOnce<ReactionInfo>(connection, 'reactions.show', { name }),
      runs: (request = {}) =>
        callOnce<readonly ReactionRun[]>(connection, 'reactions.runs', request),
    },
    pillar: {
      show: (question) => callOnce<FactMap>(connection, 'pillar.show', question),
      explain: (question) => callOnce<PillarExplanation>(connection, 'pillar.explain', question),
      diff: (question) =>
        callOnce<readonly PillarDifference[]>(connection, 'pillar.diff', question),
    },
    presence: () => callOnce<readonly PresentMinion[]>(connection, 'presence', {}),
    runners: functions(connection, 'runners'),
    wheel: functions(connection, 'wheel'),
    store: {
      backup: (target) => callOnce<BackupReceipt>(connection, 'store.backup', { target }),
    },
    status: () => callOnce<MasterStatus>(connection, 'status', {}),
    metrics: () => callOnce<readonly MetricFamily[]>(connection, 'metrics', {}),
    minions: () => callOnce<readonly MinionInfo[]>(connection, 'minions', {}),
  };
}

function asUser(connection: Connection, token: string): UserApi {
  const functionsOf = (room: 'runners' | 'wheel'): UserApi['runners'] => {
    const { run, start } = functions(connection, room);
    return {
      run: (call) => run(withToken(call, token)),
      start: (call) => start(withToken(call, token)),
    };
  };
  return {
    jobs: {
      publish: (request) => callOnce<JobReceipt>(connection, 'jobs.publish', { ...request, token }),
      batch: (request, signal) =>
        callStream<BatchUpdate>(connection, 'jobs.batch', { ...request, token }, signal),
      run: (request, signal) =>
        callStream<JobUpdate>(connection, 'jobs.run', { ...request, token }, signal),
    },
    runners: functionsOf('runners'),
    wheel: functionsOf('wheel'),
    permits: (action, name) =>
      callOnce<boolean>(connection, 'acl.permits', { token, action, name }),
    events: {
      subscribe: async (request = {}, signal) =>
        openStream<MasterEvent>(connection, 'events.subscribe', { ...request, token }, signal),
      subscribeBatches: async (request = {}, signal) =>
        singly(
          await openStream<MasterEvent>(
            connection,
            'events.subscribe',
            { ...request, token },
            signal,
          ),
        ),
      fire: async (tag, data) => {
        await callOnce<null>(connection, 'events.fire', { tag, data, token });
      },
    },
    keys: {
      create: ({ by: _, ...request }) =>
        callOnce<CreatedKey | null>(connection, 'keys.create', { ...request, token }),
    },
    requireFullRights: (what) =>
      callOnce<AuditRequester>(connection, 'users.requireFullRights', { what, token }),
  };
}

/** Over a connection, each comes by itself. */
async function* singly<T>(items: AsyncIterable<T>): AsyncGenerator<readonly T[], void, void> {
  for await (const item of items) yield [item];
}

/** The call as this user's. */
function withToken<T extends object>(call: T, token: string): T & { readonly token: string } {
  return { ...call, token };
}

function functions(connection: Connection, room: 'runners' | 'wheel'): FunctionsApi {
  return {
    run: (call) => callOnce<FunctionResult>(connection, `${room}.run`, call),
    start: (call) => callOnce<StartedCall>(connection, `${room}.start`, call),
    docs: (prefix) =>
      callOnce<Readonly<Record<string, string>>>(
        connection,
        `${room}.docs`,
        prefix === undefined ? {} : { prefix },
      ),
  };
}
