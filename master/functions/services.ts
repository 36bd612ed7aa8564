/**
 * Creates the interfaces to keys, jobs, runners and wheel functions, for programs and for minions.
 */

import type { Logger } from 'pino';
import {
  type InProcessApi,
  type InProcessFunctionsApi,
  type InProcessJobsApi,
  type LoginsApi,
  type PillarApi,
  type PresentMinion,
  version,
} from '../api/index.ts';
import { type Audit, auditedKeys } from '../audit/index.ts';
import { type Auth, createKeysApi, type OwnKey } from '../auth/index.ts';
import type { MasterConfig } from '../config/index.ts';
import { createPillarApi, type Mine, type PillarSource, type Renderer } from '../data/index.ts';
import type { EventBus } from '../events/index.ts';
import type { FileServer } from '../files/index.ts';
import {
  createJobsApi,
  type JobCache,
  type JobDispatcher,
  type JobsApiDeps,
  type KnownFacts,
  type MinionFacts,
  type TargetResolver,
} from '../jobs/index.ts';
import { FunctionCaller, type FunctionCallerOptions, saltRunners, saltWheels } from './caller.ts';
import { type Orchestrator, openOrchestrator } from './orchestrate/orchestrator.ts';
import { runnerTable } from './runners.ts';
import { wheelTable } from './wheel.ts';

export interface ServiceDeps extends Mine {
  readonly config: MasterConfig;
  readonly foundations: Auth & { readonly audit: Audit; readonly facts: KnownFacts };
  readonly bus: EventBus;
  readonly dispatcher: JobDispatcher;
  readonly targets: TargetResolver;
  readonly jobs: JobCache;
  readonly facts: MinionFacts;
  readonly present: () => readonly PresentMinion[];
  /** There when functions are called. */
  readonly logins: () => Pick<LoginsApi, 'login' | 'logout'>;
  readonly fileServer: FileServer;
  readonly pillar: PillarSource;
  /** For the SLS of orchestrations. */
  readonly rendering: Renderer;
  readonly nextJid: () => string;
  readonly closing: AbortSignal;
  readonly now: () => number;
  readonly log: Logger;
}

/** The services of a master. */
export interface Services {
  readonly keys: InProcessApi['keys'];
  readonly jobs: InProcessJobsApi;
  readonly pillar: PillarApi;
  readonly runners: FunctionCaller;
  readonly wheel: FunctionCaller;
  readonly orchestrator: Orchestrator;
}

export function createServices(parts: ServiceDeps): Services {
  const { config, foundations, dispatcher, targets } = parts;
  const ownKeys = ownKeysOf(parts);
  const keys = auditedKeys(
    createKeysApi({
      keys: foundations.keys,
      hashType: config.hashType,
      protocolOf: (id) => foundations.pins.of(id),
      unpin: (id) => foundations.pins.forget([id]),
      ownKeys: async () => ownKeys,
    }),
    foundations.audit,
  );
  const jobParts: JobsApiDeps = {
    dispatcher,
    targets,
    cache: parts.jobs,
    defaults: config,
    facts: parts.facts,
    now: parts.now,
  };
  const jobs = createJobsApi(jobParts);
  const pillar = createPillarApi({ pillar: parts.pillar, facts: foundations.facts });
  return {
    keys,
    jobs,
    pillar,
    ...createCallers(parts, { keys, jobs, ownKeys }),
  };
}

/** The callers as the interface gives them. */
export function toFunctionsApi(caller: FunctionCaller): InProcessFunctionsApi {
  return {
    run: (call) => caller.run(call),
    start: (call) => caller.start(call),
    docs: async (prefix) => caller.docs(prefix),
  };
}

function createCallers(
  parts: ServiceDeps,
  own: Pick<Services, 'keys' | 'jobs'> & { readonly ownKeys: readonly OwnKey[] },
): Pick<Services, 'runners' | 'wheel' | 'orchestrator'> {
  const { config, foundations, bus, nextJid, closing, now, log } = parts;
  const { facts } = foundations;
  const acceptedIds = (): readonly string[] => foundations.keys.acceptedIds();
  const common: Omit<FunctionCallerOptions, 'table' | 'kind' | 'notServed'> = {
    bus,
    audit: foundations.audit,
    nextJid,
    cache: config.runnerReturns ? parts.jobs : undefined,
    masterId: config.id,
    closing,
    now,
    log,
  };
  const orchestrator = openOrchestrator({
    ...parts,
    parts: () => ({ ...own, ...callers, bus, now }),
  });
  const runners = runnerTable({
    ...parts,
    ...own,
    orchestrator,
    cache: parts.jobs,
    facts,
    acceptedIds,
    version: `saltbridge ${version}`,
    docs: {
      runner: (prefix) => callers.runners.docs(prefix),
      wheel: (prefix) => callers.wheel.docs(prefix),
    },
  });
  const wheel = wheelTable({
    config,
    keys: own.keys,
    ownKeys: () => own.ownKeys,
    present: parts.present,
  });
  const callers = {
    orchestrator,
    runners: new FunctionCaller({
      ...common,
      table: runners,
      kind: 'runner',
      notServed: saltRunners,
    }),
    wheel: new FunctionCaller({ ...common, table: wheel, kind: 'wheel', notServed: saltWheels }),
  };
  return callers;
}

function ownKeysOf({ config, foundations }: ServiceDeps): OwnKey[] {
  const { masterKeys, masterKeySigner } = foundations;
  const own = [{ name: 'master.pub', pem: masterKeys.publicPem }];
  if (masterKeySigner?.kind !== 'keys') return own;
  return [...own, { name: `${config.masterSignKeyName}.pub`, pem: masterKeySigner.keys.publicPem }];
}
