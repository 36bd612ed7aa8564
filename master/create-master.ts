/** Opens the modules of a master, one after the other: each is given the modules that it needs. */

import { setMaxListeners } from 'node:events';
import path from 'node:path';
import { createClusterApi } from '#cluster/cluster-api.ts';
import { LiveConfig, type MasterConfig } from '#config';
import { Closers } from '#runtime';
import { createFiles } from '#salt/files/index.ts';
import { createData } from '#salt/pillar/index.ts';
import { createReactionCalls, createReactor, createReactorSls } from '#salt/reactor/index.ts';
import {
  authRunner,
  createFunctions,
  createOrchestrator,
  createSchedule,
  dataRunners,
  fileRunners,
  minionRunners,
  wheelTable,
} from '#salt/runners/index.ts';
import {
  type AuditRequester,
  type InProcessApi,
  MasterError,
  type MasterStatus,
  type ReloadReport,
} from './api/index.ts';
import { audited, auditedCall, auditMaster, createAudit } from './audit/index.ts';
import { createAuth, openMasterSeal, preparePrivateDirectories } from './auth/index.ts';
import { type CallGate, createContext } from './context/index.ts';
import { createEvents } from './events/index.ts';
import { createJobs } from './jobs/index.ts';
import type { StartedParts } from './master-parts.ts';
import {
  createRequestLimits,
  createRequests,
  createSignIn,
  dataRequests,
  eventRequests,
  fileRequests,
  jobRequests,
  masterRequests,
  openExtensions,
  peerRequests,
} from './requests/index.ts';
import { RpcServer, rpcTable } from './rpc/index.ts';
import { createStatus, figuresOf, measure } from './status.ts';
import { createTransports, listen, renewCertificates } from './transports.ts';
import { createUsers } from './users/index.ts';

/** A running master. */
export interface Assembly {
  readonly api: InProcessApi;
  readonly config: LiveConfig;
  /** Through which calls of a member of a cluster begin. */
  readonly calls: CallGate | undefined;
  /** See `Master.reload`. */
  reload(config: MasterConfig, by?: AuditRequester): Promise<ReloadReport>;
  close(): Promise<void>;
}

type Parts = StartedParts;

/** Opens everything in order; what was opened is closed again when a step fails. */
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
  const config = new LiveConfig(parts.config);
  const { fixed } = config;
  const closing = new AbortController();
  // Every job that is followed listens to it.
  setMaxListeners(0, closing.signal);
  await preparePrivateDirectories([fixed.stateDir, fixed.pkiDir]);
  const { logger, store, clusterLog, now, onReplaced } = parts;
  const context = await createContext({
    config: fixed,
    store,
    clusterLog,
    now,
    logger,
    onReplaced,
    closers,
    closing: closing.signal,
  });
  const seal = await openMasterSeal(fixed, context.store, context.cluster);
  const audit = await createAudit({ config, context, seal });
  const events = await createEvents({ config, context });
  const transports =
    parts.transports ?? createTransports(fixed, logger.child({ component: 'transport' }));
  const auth = await createAuth({ config, context, seal, events, transports });
  const jobs = await createJobs({ config, context, auth, audit, events, transports });
  auditMaster({ config, context, audit, auth, events });
  const users = await createUsers({ config, context, auth, audit, jobs });
  const extensions = await openExtensions(parts.extensions ?? [], {
    config,
    context,
    auth,
    audit,
    events,
    users,
  });
  const extensionFiles = extensions.files;
  const files = await createFiles({ config, context, auth, extensionFiles }, parts.fileserver);
  const extPillar = [...(parts.extPillar ?? []), ...extensions.pillars];
  const sources = { pillar: parts.pillar, extPillar };
  const data = await createData({ config, context, auth, jobs, users, files, sources });

  const keys = audited(rpcTable.keys, auth.api, audit);
  const tables = {
    runners: {
      ...minionRunners({ auth, jobs, keys }),
      ...dataRunners({ context, auth, data, jobs }),
      ...fileRunners({ context, files }),
      ...authRunner({ users }),
    },
    wheel: wheelTable({ config, auth, jobs, keys }),
    orchestrator: createOrchestrator({ config, context, data, files }),
  };
  const functions = createFunctions({ config, context, audit, events, jobs, tables });
  const sls = await createReactorSls({ config, context, files, functions });
  const { commands } = extensions;
  const calls = createReactionCalls({ jobs, users, functions, commands });
  const { reactors } = functions;
  const reactor = await createReactor({ config, context, events, jobs, calls, sls, reactors });

  const schedule = createSchedule({ config, context, jobs, functions });

  const limits = createRequestLimits({ config, context, auth });
  const intakes = [reactor.intake, ...extensions.intakes];
  const { advice } = extensions;
  const signIn = createSignIn({ config, context, auth, events, jobs, advice });
  const handlers = {
    ...jobRequests({ config, context, auth, events, jobs, limits }),
    ...eventRequests({ context, events, jobs, users, limits, intakes }),
    ...dataRequests({ config, context, events, jobs, users, data }),
    ...fileRequests({ config, context, users, files }),
    ...peerRequests({ config, context, users, jobs, functions, extensions }),
    ...masterRequests({ config, context, auth, users, files, tops: parts.tops }),
  };
  const requests = createRequests({ config, context, auth, signIn, limits, handlers });
  await auth.revokeLostKeys(extensions.onKeyLost);
  const bound = await listen(transports, requests, context);
  jobs.startPresenceEvents();
  await schedule.start();
  reactor.start();
  await tables.orchestrator.goOn();

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
  const scope = { jobs: jobs.api, runners, wheel, keys, events: eventsApi };
  const ownStatus = createStatus({ config, context, auth, audit, transports, bound });
  const status = (): MasterStatus => ({
    ...ownStatus(),
    extensions: figuresOf(extensions.metrics()),
  });
  const api: InProcessApi = {
    ...users.interfaceOf(scope),
    keys,
    runners,
    wheel,
    events: {
      subscribe: (request, signal) => eventsApi.subscribe(request, signal),
      fire: (tag, body, by) => eventsApi.fire(tag, body, by),
      denials: async () => limits.denials.list(),
    },
    acl: { ...acl, reload: async (by) => reload(await readConfig(parts), by) },
    audit: { flush: () => audit.flush() },
    logins: users.logins,
    reactions: reactor.api,
    pillar: data.api,
    presence: async () => jobs.present(),
    minions: async () => jobs.list(),
    store: audited(rpcTable.store, storeApi, audit),
    cluster: audited(rpcTable.cluster, createClusterApi(fixed, context), audit),
    status: async () => status(),
    metrics: async () => [
      ...(await measure({ context, auth, events, jobs, reactor, limits }, ownStatus())),
      ...[...extensions.metrics().values()].flat(),
    ],
  };
  await extensions.start({ api, jobs });
  const log = logger.child({ component: 'rpc' });
  const gate = context.cluster?.calls;
  const rpc = new RpcServer(api, log, extensions.methods, fixed.maxEventSize, gate);
  await closers.add(rpc, (it) => it.close()).listen(fixed.socket);
  closers.add(closing, (it) => {
    // Before the connections end: nobody can tell afterwards.
    jobs.warnOfOwnRestarts();
    // First, so that no end of a job that follows from the closing is taken for its own.
    rpc.endStreams();
    it.abort();
  });
  logger.info({ transports: bound, socket: fixed.socket }, 'master started');
  return { api, config, calls: gate, reload, close: () => closers.close() };
}

/** All or nothing: what cannot be read, or used, is told to whoever asked. */
async function readConfig({ readConfig: read }: Parts): Promise<MasterConfig> {
  if (read !== undefined) return read();
  const problem = 'this master was given its configuration by its program';
  throw new MasterError('ERR_NOT_RELOADABLE', problem);
}

function wholePath(target: string): string {
  if (path.isAbsolute(target)) return target;
  throw new MasterError('ERR_ARGS', 'target: expected a whole path');
}
