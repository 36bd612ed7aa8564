import type {
  BatchUpdate,
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
import { callOnce, callStream } from './rpc.ts';

/** Where the master is. */
export interface MasterClientOptions {
  /** Path of its local socket (`saltbridge.sock` in `sock_dir`). */
  readonly socketPath: string;
}

/**
 * A running master on this host, with the same interface as one in the process. Connects at each
 * call; nothing is held open between calls.
 * @throws RemoteError from each call: the master's code, or ERR_SOCKET when none can be reached
 */
export function connectMaster({ socketPath }: MasterClientOptions): MasterApi {
  return {
    keys: {
      list: (request = {}) => callOnce<readonly KeyInfo[]>(socketPath, 'keys.list', request),
      local: () => callOnce<readonly LocalKeyInfo[]>(socketPath, 'keys.local', {}),
      accept: (selection) => callOnce<readonly KeyChange[]>(socketPath, 'keys.accept', selection),
      reject: (selection) => callOnce<readonly KeyChange[]>(socketPath, 'keys.reject', selection),
      delete: (selection) => callOnce<readonly KeyChange[]>(socketPath, 'keys.delete', selection),
      unpin: async (id) => {
        await callOnce<null>(socketPath, 'keys.unpin', { id });
      },
    },
    jobs: {
      publish: (request) => callOnce<JobReceipt>(socketPath, 'jobs.publish', request),
      batch: (request, signal) =>
        callStream<BatchUpdate>(socketPath, 'jobs.batch', request, signal),
      list: (request = {}) => callOnce<readonly JobSummary[]>(socketPath, 'jobs.list', request),
      show: (jid) => callOnce<JobReport>(socketPath, 'jobs.show', { jid }),
      run: (request, signal) => callStream<JobUpdate>(socketPath, 'jobs.run', request, signal),
      underWay: () => callOnce<readonly JobProgress[]>(socketPath, 'jobs.underWay', {}),
      plan: (request) => callOnce<TargetPlan>(socketPath, 'jobs.plan', request),
    },
    events: {
      subscribe: (request = {}, signal) =>
        callStream<MasterEvent>(socketPath, 'events.subscribe', request, signal),
      fire: async (tag, data) => {
        await callOnce<null>(socketPath, 'events.fire', { tag, data });
      },
      denials: () => callOnce<readonly Denial[]>(socketPath, 'events.denials', {}),
    },
    acl: {
      explain: (request) => callOnce<Explanation>(socketPath, 'acl.explain', request),
      learn: (request = {}) => callOnce<LearnedPolicy>(socketPath, 'acl.learn', request),
      replay: (request) => callOnce<ReplayReport>(socketPath, 'acl.replay', request),
      reload: () => callOnce<ReloadReport>(socketPath, 'acl.reload', {}),
      forget: async () => {
        await callOnce<null>(socketPath, 'acl.forget', {});
      },
    },
    audit: { flush: () => callOnce<StoredHead | null>(socketPath, 'audit.flush', {}) },
    logins: {
      login: (request) => callOnce<Login>(socketPath, 'logins.login', request),
      identify: (token) => callOnce<TokenInfo>(socketPath, 'logins.identify', { token }),
      logout: (token) => callOnce<boolean>(socketPath, 'logins.logout', { token }),
      list: () => callOnce<readonly TokenInfo[]>(socketPath, 'logins.list', {}),
      revoke: (selection) => callOnce<readonly TokenInfo[]>(socketPath, 'logins.revoke', selection),
      follow: (token, signal) =>
        callStream<TokenInfo>(socketPath, 'logins.follow', { token }, signal),
    },
    asUser: (token) => asUser(socketPath, token),
    reactions: {
      list: () => callOnce<readonly ReactionInfo[]>(socketPath, 'reactions.list', {}),
      show: (name) => callOnce<ReactionInfo>(socketPath, 'reactions.show', { name }),
      runs: (request = {}) =>
        callOnce<readonly ReactionRun[]>(socketPath, 'reactions.runs', request),
    },
    pillar: {
      show: (question) => callOnce<FactMap>(socketPath, 'pillar.show', question),
      explain: (question) => callOnce<PillarExplanation>(socketPath, 'pillar.explain', question),
      diff: (question) =>
        callOnce<readonly PillarDifference[]>(socketPath, 'pillar.diff', question),
    },
    presence: () => callOnce<readonly PresentMinion[]>(socketPath, 'presence', {}),
    runners: functions(socketPath, 'runners'),
    wheel: functions(socketPath, 'wheel'),
    store: {
      backup: (target) => callOnce<BackupReceipt>(socketPath, 'store.backup', { target }),
    },
    status: () => callOnce<MasterStatus>(socketPath, 'status', {}),
    metrics: () => callOnce<readonly MetricFamily[]>(socketPath, 'metrics', {}),
    minions: () => callOnce<readonly MinionInfo[]>(socketPath, 'minions', {}),
  };
}

function asUser(socketPath: string, token: string): UserApi {
  const functionsOf = (room: 'runners' | 'wheel'): UserApi['runners'] => {
    const { run, start } = functions(socketPath, room);
    return {
      run: (call) => run(withToken(call, token)),
      start: (call) => start(withToken(call, token)),
    };
  };
  return {
    jobs: {
      publish: (request) => callOnce<JobReceipt>(socketPath, 'jobs.publish', { ...request, token }),
      batch: (request, signal) =>
        callStream<BatchUpdate>(socketPath, 'jobs.batch', { ...request, token }, signal),
      run: (request, signal) =>
        callStream<JobUpdate>(socketPath, 'jobs.run', { ...request, token }, signal),
    },
    runners: functionsOf('runners'),
    wheel: functionsOf('wheel'),
    permits: (action, name) =>
      callOnce<boolean>(socketPath, 'acl.permits', { token, action, name }),
    events: {
      subscribe: async (request = {}, signal) =>
        callStream<MasterEvent>(socketPath, 'events.subscribe', { ...request, token }, signal),
      fire: async (tag, data) => {
        await callOnce<null>(socketPath, 'events.fire', { tag, data, token });
      },
    },
  };
}

/** The call as this user's. */
function withToken<T extends object>(call: T, token: string): T & { readonly token: string } {
  return { ...call, token };
}

function functions(socketPath: string, room: 'runners' | 'wheel'): FunctionsApi {
  return {
    run: (call) => callOnce<FunctionResult>(socketPath, `${room}.run`, call),
    start: (call) => callOnce<StartedCall>(socketPath, `${room}.start`, call),
    docs: (prefix) =>
      callOnce<Readonly<Record<string, string>>>(
        socketPath,
        `${room}.docs`,
        prefix === undefined ? {} : { prefix },
      ),
  };
}
