/** The master's interface over its parts: see api.ts for what each call promises. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { type BoundPorts, compileGlob, type MasterTransport } from '../minion-protocol/index.ts';
import type { BackupReceipt } from '../store/index.ts';
import type { MasterApi } from './api.ts';
import type { MasterConfig } from './config/options.ts';
import { MasterError } from './errors.ts';
import type { EventBus } from './events/bus.ts';
import type { Foundations } from './foundations.ts';
import type { JobDispatcher } from './jobs/dispatcher.ts';
import type { JobCache } from './jobs/job-cache.ts';
import { createJobsApi } from './jobs/jobs-api.ts';
import { createKeysApi, type OwnKey } from './keys/keys-api.ts';
import type { RequestCounters } from './limits/counters.ts';
import type { DenialLog } from './requests/denial-log.ts';
import type { LastHeard } from './requests/last-heard.ts';
import type { TargetResolver } from './targeting/resolve.ts';

/** What the interface speaks for. */
export interface InterfaceParts {
  readonly config: MasterConfig;
  readonly foundations: Foundations;
  readonly bus: EventBus;
  readonly dispatcher: JobDispatcher;
  readonly targets: TargetResolver;
  readonly jobs: JobCache;
  readonly lastHeard: LastHeard;
  readonly transports: readonly MasterTransport[];
  readonly counters: RequestCounters;
  readonly denials: DenialLog;
  readonly bound: BoundPorts;
  readonly startedAt: number;
  readonly now: () => number;
}

export function createApi(parts: InterfaceParts): MasterApi {
  const { config, bus, dispatcher, targets, denials, foundations, lastHeard } = parts;
  return {
    keys: createKeysApi({
      keys: foundations.keys,
      hashType: config.hashType,
      protocolOf: (id) => foundations.pins.of(id),
      unpin: (id) => foundations.pins.forget([id]),
      ownKeys: async () => ownKeys(parts),
    }),
    jobs: createJobsApi({
      dispatcher,
      targets,
      cache: parts.jobs,
      defaults: { timeout: config.timeout, gatherJobTimeout: config.gatherJobTimeout },
      facts: {
        isAccepted: (id) => foundations.keys.get(id)?.state === 'accepted',
        lastHeardAt: (id) => lastHeard.of(id),
      },
      now: parts.now,
    }),
    events: {
      subscribe: (request = {}, signal) =>
        bus.subscribe({
          ...(request.match === undefined ? {} : { accepts: compileGlob(request.match) }),
          ...(signal === undefined ? {} : { signal }),
        }),
      denials: async () => denials.list(),
    },
    store: { backup: (target) => backUp(parts, target) },
    status: async () => describeStatus(parts),
  };
}

async function backUp({ foundations }: InterfaceParts, target: string): Promise<BackupReceipt> {
  if (!path.isAbsolute(target)) throw new MasterError('ERR_ARGS', 'target: expected a whole path');
  return foundations.storeKeeper.backup(target);
}

function ownKeys({ config, foundations }: InterfaceParts): OwnKey[] {
  const { masterKeys, signKeys } = foundations;
  const own = [{ name: 'master.pub', pem: masterKeys.publicPem }];
  if (signKeys === undefined) return own;
  return [...own, { name: `${config.masterSignKeyName}.pub`, pem: signKeys.publicPem }];
}

const packageFile = new URL('../../package.json', import.meta.url);
const { version }: { version: string } = JSON.parse(readFileSync(packageFile, 'utf8'));

function describeStatus(parts: InterfaceParts): Awaited<ReturnType<MasterApi['status']>> {
  const { accepted, denied, pending, rejected } = parts.foundations.keys.list();
  const refusals = Object.assign({}, ...parts.transports.map((transport) => transport.refusals()));
  return {
    id: parts.config.id,
    version,
    pid: process.pid,
    startedAt: parts.startedAt,
    requestPort: parts.bound.requestPort,
    publishPort: parts.bound.publishPort,
    subscribers: parts.transports.reduce((sum, it) => sum + it.subscribers().length, 0),
    storeFull: parts.foundations.storeKeeper.isFull(),
    keys: {
      accepted: accepted.length,
      denied: denied.length,
      pending: pending.length,
      rejected: rejected.length,
    },
    counters: { ...refusals, ...parts.counters.snapshot() },
  };
}
