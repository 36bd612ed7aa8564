/** Implements the interface of a master (api/master-api.ts) over its modules. */

import path from 'node:path';
import type { BoundPorts, MasterTransport } from '../minion-protocol/index.ts';
import type { BackupReceipt } from '../store/index.ts';
import {
  type AuditRequester,
  type InProcessApi,
  MasterError,
  type MinionInfo,
  type PresentMinion,
  type ReactionsApi,
  type ReloadReport,
  type TransportStatus,
  type UserApi,
  version,
} from './api/index.ts';
import type { LiveConfig, MasterConfig } from './config/index.ts';
import type { CoreServices } from './core-services.ts';
import type { BusApi, EventBus } from './events/index.ts';
import { type Services, toFunctionsApi } from './functions/index.ts';
import { needingOwnRestart } from './jobs/index.ts';
import { metricFamilies, type RequestCounters } from './metrics/index.ts';
import type { DenialLog } from './requests/index.ts';
import {
  createDecisionsApi,
  type ExplainDeps,
  explainRequest,
  type LivePolicy,
} from './users/index.ts';

/** A transport that is served, with its real ports. */
export interface BoundTransport extends BoundPorts {
  /** Salt's name of it. */
  readonly transport: string;
}

/** What the interface speaks for. */
export interface InterfaceDeps extends ExplainDeps {
  readonly config: LiveConfig;
  readonly foundations: CoreServices;
  readonly events: BusApi;
  readonly bus: EventBus;
  readonly livePolicy: LivePolicy;
  readonly reload: (config: MasterConfig, by?: AuditRequester) => Promise<ReloadReport>;
  readonly readConfig: (() => Promise<MasterConfig>) | undefined;
  readonly services: Services;
  readonly logins: InProcessApi['logins'];
  readonly asUser: (token: string) => UserApi;
  readonly reactions: ReactionsApi;
  readonly present: () => readonly PresentMinion[];
  /** Milliseconds since 1970. */
  readonly heardAt: (minionId: string) => number | undefined;
  readonly transports: readonly MasterTransport[];
  readonly counters: RequestCounters;
  readonly denials: DenialLog;
  readonly waitingRequests: () => number;
  readonly bound: readonly BoundTransport[];
  readonly startedAt: number;
}

export function createApi(parts: InterfaceDeps): InProcessApi {
  const { events, denials, services } = parts;
  return {
    keys: services.keys,
    jobs: services.jobs,
    events: {
      subscribe: (request, signal) => events.subscribe(request, signal),
      fire: (tag, data, by) => events.fire(tag, data, by),
      denials: async () => denials.list(),
    },
    acl: {
      explain: async (request) => explainRequest(parts, request),
      reload: (by) => reloadFiles(parts, by),
      ...createDecisionsApi({
        decisions: parts.foundations.decisions,
        policy: parts.livePolicy,
      }),
    },
    audit: { flush: () => parts.foundations.audit.flush() },
    logins: parts.logins,
    asUser: parts.asUser,
    reactions: parts.reactions,
    pillar: services.pillar,
    presence: async () => parts.present(),
    minions: async () => listMinions(parts),
    runners: toFunctionsApi(services.runners),
    wheel: toFunctionsApi(services.wheel),
    store: { backup: (target) => backUp(parts, target) },
    status: async () => describeStatus(parts),
    metrics: () => measure(parts),
  };
}

/** All or nothing: what cannot be read, or used, is told to whoever asked. */
async function reloadFiles(
  { reload, readConfig }: InterfaceDeps,
  by: AuditRequester | undefined,
): Promise<ReloadReport> {
  if (readConfig === undefined) {
    const problem = 'this master was given its configuration by its program';
    throw new MasterError('ERR_NOT_RELOADABLE', problem);
  }
  return reload(await readConfig(), by);
}

async function backUp({ foundations }: InterfaceDeps, target: string): Promise<BackupReceipt> {
  if (!path.isAbsolute(target)) throw new MasterError('ERR_ARGS', 'target: expected a whole path');
  return foundations.storeKeeper.backup(target);
}

function listMinions({ foundations, present, heardAt }: InterfaceDeps): MinionInfo[] {
  const listening = present();
  const there = new Set(listening.map(({ id }) => id));
  const staying = new Set(needingOwnRestart(listening, (id) => foundations.facts.of(id)));
  return foundations.keys.acceptedIds().map((id) => {
    const at = heardAt(id);
    return {
      id,
      isPresent: there.has(id),
      ...(at === undefined ? {} : { heardAt: at }),
      ...(staying.has(id) ? { needsOwnRestart: true } : {}),
    };
  });
}

async function measure(parts: InterfaceDeps): ReturnType<InProcessApi['metrics']> {
  const { foundations, bus, reactions } = parts;
  const waiting = (await reactions.list()).reduce((sum, it) => sum + it.waiting, 0);
  return metricFamilies(foundations.meter, {
    status: describeStatus(parts),
    present: parts.present().length,
    events: bus.figures(),
    queues: {
      rsa: foundations.rsa.waiting,
      requests: parts.waitingRequests(),
      events: bus.deepestQueue(),
      reactions: waiting,
    },
  });
}

function describeStatus(parts: InterfaceDeps): Awaited<ReturnType<InProcessApi['status']>> {
  const { accepted, denied, pending, rejected } = parts.foundations.keys.list();
  const [first] = parts.bound;
  return {
    id: parts.config.fixed.id,
    version,
    pid: process.pid,
    startedAt: parts.startedAt,
    requestPort: first?.requestPort ?? 0,
    publishPort: first?.publishPort ?? 0,
    transports: describeTransports(parts),
    subscribers: parts.transports.reduce((sum, it) => sum + it.subscribers().length, 0),
    aclMode: parts.config.current.acl.mode,
    auditFull: parts.foundations.audit.isFull(),
    storeFull: parts.foundations.storeKeeper.isFull(),
    keys: {
      accepted: accepted.length,
      denied: denied.length,
      pending: pending.length,
      rejected: rejected.length,
    },
    counters: { ...sumOfRefusals(parts.transports), ...parts.counters.snapshot() },
  };
}

function describeTransports({ bound, transports }: InterfaceDeps): TransportStatus[] {
  return bound.map((ports, index) => ({
    ...ports,
    subscribers: transports[index]?.subscribers().length ?? 0,
  }));
}

function sumOfRefusals(transports: readonly MasterTransport[]): Record<string, number> {
  const sums = new Map<string, number>();
  for (const [reason, count] of transports.flatMap((it) => Object.entries(it.refusals()))) {
    sums.set(reason, (sums.get(reason) ?? 0) + count);
  }
  return Object.fromEntries(sums);
}
