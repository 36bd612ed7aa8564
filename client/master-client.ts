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
  callMethod,
  createConnection,
  type LocalMaster,
  openMethodStream,
  type RemoteMaster,
  streamMethod,
} from './rpc.ts';

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
  const connection = createConnection(options);
  return {
    keys: {
      list: (request = {}) => callMethod<readonly KeyInfo[]>(connection, 'keys.list', request),
      local: () => callMethod<readonly LocalKeyInfo[]>(connection, 'keys.local', {}),
      // Who asks is known to the master by the connection.
      accept: ({ by: _, ...selection }) =>
        callMethod<readonly KeyChange[]>(connection, 'keys.accept', selection),
      reject: ({ by: _, ...selection }) =>
        callMethod<readonly KeyChange[]>(connection, 'keys.reject', selection),
      delete: ({ by: _, ...selection }) =>
        callMethod<readonly KeyChange[]>(connection, 'keys.delete', selection),
      create: ({ by: _, ...request }) =>
        callMethod<CreatedKey | null>(connection, 'keys.create', request),
      unpin: async (id) => {
        await callMethod<null>(connection, 'keys.unpin', { id });
      },
    },
    jobs: {
      publish: (request) => callMethod<JobReceipt>(connection, 'jobs.publish', request),
      batch: (request, signal) =>
        streamMethod<BatchUpdate>(connection, 'jobs.batch', request, signal),
      list: (request = {}) => callMethod<readonly JobSummary[]>(connection, 'jobs.list', request),
      show: (jid) => callMethod<JobReport>(connection, 'jobs.show', { jid }),
      run: (request, signal) => streamMethod<JobUpdate>(connection, 'jobs.run', request, signal),
      underWay: () => callMethod<readonly JobProgress[]>(connection, 'jobs.underWay', {}),
      plan: (request) => callMethod<TargetPlan>(connection, 'jobs.plan', request),
    },
    events: {
      subscribe: (request = {}, signal) =>
        streamMethod<MasterEvent>(connection, 'events.subscribe', request, signal),
      fire: async (tag, data) => {
        await callMethod<null>(connection, 'events.fire', { tag, data });
      },
      denials: () => callMethod<readonly Denial[]>(connection, 'events.denials', {}),
    },
    acl: {
      explain: (request) => callMethod<Explanation>(connection, 'acl.explain', request),
      learn: (request = {}) => callMethod<LearnedPolicy>(connection, 'acl.learn', request),
      replay: (request) => callMethod<ReplayReport>(connection, 'acl.replay', request),
      reload: () => callMethod<ReloadReport>(connection, 'acl.reload', {}),
      forget: async () => {
        await callMethod<null>(connection, 'acl.forget', {});
      },
    },
    audit: { flush: () => callMethod<StoredHead | null>(connection, 'audit.flush', {}) },
    logins: {
      login: (request) => callMethod<Login>(connection, 'logins.login', request),
      identify: (token) => callMethod<TokenInfo>(connection, 'logins.identify', { token }),
      logout: (token) => callMethod<boolean>(connection, 'logins.logout', { token }),
      list: () => callMethod<readonly TokenInfo[]>(connection, 'logins.list', {}),
      revoke: ({ by: _, ...selection }) =>
        callMethod<readonly TokenInfo[]>(connection, 'logins.revoke', selection),
      follow: (token, signal) =>
        streamMethod<TokenInfo>(connection, 'logins.follow', { token }, signal),
    },
    asUser: (token) => createUserApi(connection, token),
    reactions: {
      list: () => callMethod<readonly ReactionInfo[]>(connection, 'reactions.list', {}),
      show: (name) => callMethod<ReactionInfo>(connection, 'reactions.show', { name }),
      runs: (request = {}) =>
        callMethod<readonly ReactionRun[]>(connection, 'reactions.runs', request),
    },
    pillar: {
      show: (question) => callMethod<FactMap>(connection, 'pillar.show', question),
      explain: (question) => callMethod<PillarExplanation>(connection, 'pillar.explain', question),
      diff: (question) =>
        callMethod<readonly PillarDifference[]>(connection, 'pillar.diff', question),
    },
    presence: () => callMethod<readonly PresentMinion[]>(connection, 'presence', {}),
    runners: createFunctionsApi(connection, 'runners'),
    wheel: createFunctionsApi(connection, 'wheel'),
    store: {
      backup: (target) => callMethod<BackupReceipt>(connection, 'store.backup', { target }),
    },
    status: () => callMethod<MasterStatus>(connection, 'status', {}),
    metrics: () => callMethod<readonly MetricFamily[]>(connection, 'metrics', {}),
    minions: () => callMethod<readonly MinionInfo[]>(connection, 'minions', {}),
  };
}

function createUserApi(connection: Connection, token: string): UserApi {
  const functionsOf = (room: 'runners' | 'wheel'): UserApi['runners'] => {
    const { run, start } = createFunctionsApi(connection, room);
    return {
      run: (call) => run(withToken(call, token)),
      start: (call) => start(withToken(call, token)),
    };
  };
  return {
    jobs: {
      publish: (request) =>
        callMethod<JobReceipt>(connection, 'jobs.publish', { ...request, token }),
      batch: (request, signal) =>
        streamMethod<BatchUpdate>(connection, 'jobs.batch', { ...request, token }, signal),
      run: (request, signal) =>
        streamMethod<JobUpdate>(connection, 'jobs.run', { ...request, token }, signal),
    },
    runners: functionsOf('runners'),
    wheel: functionsOf('wheel'),
    permits: (action, name) =>
      callMethod<boolean>(connection, 'acl.permits', { token, action, name }),
    events: {
      subscribe: async (request = {}, signal) =>
        openMethodStream<MasterEvent>(
          connection,
          'events.subscribe',
          { ...request, token },
          signal,
        ),
      subscribeBatches: async (request = {}, signal) =>
        inSingleItemBatches(
          await openMethodStream<MasterEvent>(
            connection,
            'events.subscribe',
            { ...request, token },
            signal,
          ),
        ),
      fire: async (tag, data) => {
        await callMethod<null>(connection, 'events.fire', { tag, data, token });
      },
    },
    keys: {
      create: ({ by: _, ...request }) =>
        callMethod<CreatedKey | null>(connection, 'keys.create', { ...request, token }),
    },
    requireFullRights: (what) =>
      callMethod<AuditRequester>(connection, 'users.requireFullRights', { what, token }),
  };
}

/** Over a connection, each comes by itself. */
async function* inSingleItemBatches<T>(
  items: AsyncIterable<T>,
): AsyncGenerator<readonly T[], void, void> {
  for await (const item of items) yield [item];
}

/** The call as this user's. */
function withToken<T extends object>(call: T, token: string): T & { readonly token: string } {
  return { ...call, token };
}

function createFunctionsApi(connection: Connection, room: 'runners' | 'wheel'): FunctionsApi {
  return {
    run: (call) => callMethod<FunctionResult>(connection, `${room}.run`, call),
    start: (call) => callMethod<StartedCall>(connection, `${room}.start`, call),
    docs: (prefix) =>
      callMethod<Readonly<Record<string, string>>>(
        connection,
        `${room}.docs`,
        prefix === undefined ? {} : { prefix },
      ),
  };
}

/** Methods that an extension of a running master has. */
export interface ExtensionClient {
  /** One value. `T` is what the extension promises for the method. @throws RemoteError */
  call<T>(method: string, parameters?: object): Promise<T>;
  /** A stream; ends with the signal. @throws RemoteError from the iteration */
  stream<T>(method: string, parameters?: object, signal?: AbortSignal): AsyncIterable<T>;
}

/**
 * An extension of a master on this host, by its local socket.
 * @param extension - its name, for instance `bridge`
 */
export function connectExtension(master: LocalMaster, extension: string): ExtensionClient {
  const connection = createConnection(master);
  return {
    call: (method, parameters = {}) => callMethod(connection, `${extension}.${method}`, parameters),
    stream: (method, parameters = {}, signal) =>
      streamMethod(connection, `${extension}.${method}`, parameters, signal),
  };
}
