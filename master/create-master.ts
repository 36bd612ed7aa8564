import { setMaxListeners } from 'node:events';
import path from 'node:path';
import { type FixedConfig, LiveConfig, type MasterConfig } from '#config';
import {
  type AuditRequester,
  type ClusterApi,
  type FunctionCall,
  type InProcessApi,
  MasterError,
  type MasterStatus,
  type PillarApi,
  type ReactionsApi,
  type ReloadReport,
} from './api/index.ts';
import { audited, auditedCall, auditMaster, createAudit } from './audit/index.ts';
import { createAuth, openSeal, preparePrivateDirectories } from './auth/index.ts';
import type { ClusterMember } from './cluster-parts.ts';
import { type CallGate, Closers, createContext } from './context/index.ts';
import { createEvents } from './events/index.ts';
import {
  coreMethods,
  decorate,
  Extensions,
  masterServices,
  type ServiceKey,
  Services,
} from './extensions/index.ts';
import { createFunctions } from './functions/index.ts';
import { createJobs } from './jobs/index.ts';
import type { StartedParts } from './master-parts.ts';
import {
  coreRequests,
  createRequestLimits,
  createRequests,
  createSignIn,
} from './requests/index.ts';
import { RpcServer, rpcTable } from './rpc/index.ts';
import { createStatus, figuresOf, measure } from './status.ts';
import { createTransports, listen, renewCertificates } from './transports.ts';
import { createUsers } from './users/index.ts';

/** All modules of a running master. */
export interface Assembly {
  readonly api: InProcessApi;
  readonly config: LiveConfig;
  /**
   * Counter of calls of the master's interface that are in progress. Present only for a cluster
   * member.
   */
  readonly calls: CallGate | undefined;
  /** Applies a new configuration. See `Master.reload`. */
  reload(config: MasterConfig, by?: AuditRequester): Promise<ReloadReport>;
  close(): Promise<void>;
}

type Parts = StartedParts;

/**
 * Creates all modules of a master in order. If a step fails, closes the modules created before it.
 */
export async function assemble(parts: Parts): Promise<Assembly> {
  const closers = new Closers();
  try {
    return await open(parts, closers);
  } catch (error) {
    await closers.close();
    throw error;
  }
}

async function open(parts: Parts, closers: Closers): Promise<Assembly> {
  const config = new LiveConfig(parts.config, parts.leftOut);
  const { fixed } = config;
  const closing = new AbortController();
  // Each followed job adds a listener, so Node's limit for a memory leak warning does not apply.
  setMaxListeners(0, closing.signal);
  await preparePrivateDirectories([fixed.stateDir, fixed.pkiDir]);
  const { logger, store, now, onReplaced } = parts;
  const member = await openMember(parts, fixed, closing.signal);
  const context = await createContext({
    config: fixed,
    store,
    shared: member,
    now,
    logger,
    onReplaced,
    closers,
    closing: closing.signal,
  });
  const seal = await (member?.keys.openSeal(context.store) ?? openSeal(fixed.stateDir));
  const audit = await createAudit({ config, context, seal });
  const events = await createEvents({ config, context });
  const transports =
    parts.transports ?? createTransports(fixed, logger.child({ component: 'transport' }));
  const auth = await createAuth({
    ...{ config, context, seal, events, transports },
    sharedKeys: member?.keys,
  });
  const jobs = await createJobs({
    ...{ config, context, auth, audit, events, transports },
    others: member?.jobs,
  });
  auditMaster({ config, context, audit, auth, events });
  const users = await createUsers({ config, context, auth, audit, jobs });
  const limits = createRequestLimits({ config, context, auth });
  const keys = audited(rpcTable.keys, auth.api, audit);
  const extensions = new Extensions(parts.extensions ?? []);
  const { collection } = extensions;
  const functions = createFunctions({ config, context, audit, events, jobs, tables: collection });
  const services = new Services();
  const provide = <T extends object>(key: ServiceKey<T>, service: T): void =>
    services.provide(key, service, master);
  provide(masterServices.config, config);
  provide(masterServices.context, context);
  provide(masterServices.auth, auth);
  provide(masterServices.audit, audit);
  provide(masterServices.events, events);
  provide(masterServices.jobs, jobs);
  provide(masterServices.users, users);
  provide(masterServices.keys, keys);
  provide(masterServices.limits, limits);
  provide(masterServices.functions, functions);
  provide(masterServices.contributions, collection);
  provide(masterServices.tokenHolders, { hold: users.holdToken });
  await extensions.open({ config, context, auth, audit, events, jobs, users, services });
  jobs.cache.returnRows = collection.returnRows;

  const signIn = createSignIn({ config, context, auth, events, jobs, advice: extensions.advice });
  const environments = services.find(masterServices.fileEnvironments, master);
  collection.addRequests(
    coreRequests({
      ...{ config, context, auth, events, jobs, users, limits },
      intakes: collection.intakes,
      redactions: collection.redactions,
      environments: () => environments?.list() ?? [],
    }),
  );
  const types = collection.requests;
  const requests = createRequests({ config, context, auth, signIn, limits, types });
  await auth.revokeLostKeys((id, where) => extensions.loseKey(id, where));
  const bound = await listen(transports, requests, context);
  jobs.startPresenceEvents();

  const reload: Assembly['reload'] = (next, by) =>
    auditedCall(rpcTable.acl.reload, { parameters: {}, by }, audit, async () => {
      const report = await config.replace(next);
      return { ...report, certificates: await renewCertificates(transports, logger) };
    });
  const eventsApi = audited(rpcTable.events, events.api, audit);
  const acl = audited(rpcTable.acl, users.acl, audit);
  const storeApi: InProcessApi['store'] = {
    backup: (target) => context.disk.backup(wholePath(target)),
  };
  const { runners, wheel } = functions.api;
  const withoutUnknown = (kind: 'runner' | 'wheel', call: FunctionCall): FunctionCall =>
    (kind === 'runner' ? functions.runners : functions.wheel).withoutUnknown(call);
  const scope = { jobs: jobs.api, runners, wheel, withoutUnknown, keys, events: eventsApi };
  const { asUser, sudoRights } = users.interfaceOf(scope);
  const reactions = services.find(masterServices.reactions, master) ?? noReactions;
  const ownStatus = createStatus({ config, context, auth, audit, transports, bound });
  const status = (): MasterStatus => ({
    ...ownStatus(),
    extensions: figuresOf(extensions.metrics()),
  });
  const api: InProcessApi = {
    ...decorate(scope, { jobs: sudoRights }),
    asUser,
    events: {
      subscribe: (request, signal) => eventsApi.subscribe(request, signal),
      fire: (tag, body, by) => eventsApi.fire(tag, body, by),
      denials: async () => limits.denials.list(),
    },
    acl: { ...acl, reload: async (by) => reload(await readConfig(parts), by) },
    audit: { flush: () => audit.flush() },
    logins: users.logins,
    reactions,
    pillar: services.find(masterServices.pillar, master) ?? noPillar,
    presence: async () => jobs.present(),
    minions: async () => jobs.list(),
    store: audited(rpcTable.store, storeApi, audit),
    cluster: audited(rpcTable.cluster, member?.createApi(fixed, context) ?? noCluster, audit),
    status: async () => status(),
    metrics: async () => [
      ...(await measure({ context, auth, events, jobs, reactions, limits }, ownStatus())),
      ...[...extensions.metrics().values()].flat(),
    ],
  };
  await extensions.start(api);
  const log = logger.child({ component: 'rpc' });
  const gate = context.cluster?.calls;
  const core = coreMethods((key) => services.find(key, master));
  const methods = new Map([...core, ...collection.methods]);
  const rpc = new RpcServer({ api, log, methods, calls: gate }, fixed.maxEventSize);
  await closers.add(rpc, (it) => it.close()).listen(fixed.socket);
  closers.add(closing, (it) => {
    // Minions must be informed before their connections are closed.
    jobs.warnOfOwnRestarts();
    // Streams end first. Otherwise, a job that ends because the master closes would be reported as
    // finished.
    rpc.endStreams();
    it.abort();
  });
  logger.info({ transports: bound, socket: fixed.socket }, 'master started');
  return { api, config, calls: gate, reload, close: () => closers.close() };
}

/**
 * Opens the store of a cluster member, if the configuration has a cluster.
 * @throws StoreError
 */
async function openMember(
  { store, storeProvider, now = Date.now, logger, onReplaced }: Parts,
  config: FixedConfig,
  closing: AbortSignal,
): Promise<ClusterMember | undefined> {
  const { cluster } = config;
  if (cluster === null || store !== undefined) return undefined;
  if (storeProvider === undefined) {
    const problem =
      'saltbridge: cluster is set, but this master was created without a store for clusters';
    throw new MasterError('ERR_NOT_SERVED', `${problem}; create the master with createMaster`);
  }
  return storeProvider.open({ config, cluster, now, logger, onReplaced, closing });
}

async function refuseWithout(): Promise<never> {
  throw new MasterError(
    'ERR_NOT_SERVED',
    'this master belongs to no cluster; set saltbridge: cluster',
  );
}

const noCluster: ClusterApi = {
  status: async () => null,
  ticket: refuseWithout,
  remove: refuseWithout,
  drain: refuseWithout,
  resume: refuseWithout,
};

/**
 * Name under which the master itself provides and uses services. It appears in the error about an
 * extension that provides the same service.
 */
const master = 'the master';

/** Rejects a call of a method whose extension is not loaded. */
async function leftOut(): Promise<never> {
  const message = 'this master was started without this service; add its extension';
  throw new MasterError('ERR_NOT_SERVED', message);
}

const noPillar: PillarApi = {
  show: leftOut,
  explain: leftOut,
  diff: leftOut,
  inputs: leftOut,
};
const noReactions: ReactionsApi = { list: async () => [], show: leftOut, runs: async () => [] };

/**
 * Reads the configuration again with the function that the program supplied.
 * @throws MasterError ERR_NOT_RELOADABLE if there is no such function, because the program supplied
 * the options itself
 */
async function readConfig({ readConfig: read }: Parts): Promise<MasterConfig> {
  if (read !== undefined) return read();
  const problem = 'the program supplied the configuration of this master; reload it there';
  throw new MasterError('ERR_NOT_RELOADABLE', problem);
}

function wholePath(target: string): string {
  if (path.isAbsolute(target)) return target;
  throw new MasterError('ERR_ARGS', 'target must be an absolute path');
}
