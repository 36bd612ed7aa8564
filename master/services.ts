/** Keys, jobs, runners and wheel over their parts: what the interface gives, and minions may ask. */
import type { Logger } from 'pino';
import type { FunctionsApi, JobsApi, KeysApi, LoginsApi, PillarApi } from './api.ts';
import { auditedKeys } from './audit/audited-keys.ts';
import type { MasterConfig } from './config/options.ts';
import type { EventBus } from './events/bus.ts';
import type { FileServer } from './fileserver/file-server.ts';
import type { Foundations } from './foundations.ts';
import type { JobDispatcher } from './jobs/dispatcher.ts';
import type { JobUpdate } from './jobs/follow.ts';
import type { JobCache } from './jobs/job-cache.ts';
import { createJobsApi, type JobsApiParts } from './jobs/jobs-api.ts';
import type { MinionFacts } from './jobs/ledger.ts';
import { resumeJob } from './jobs/resume.ts';
import { createKeysApi, type OwnKey } from './keys/keys-api.ts';
import type { Mine } from './mine/open-mine.ts';
import { openOrchestrator } from './orchestrate/open.ts';
import type { Orchestrator } from './orchestrate/orchestrator.ts';
import type { PillarSource } from './pillar/answer.ts';
import { createPillarApi } from './pillar/pillar-api.ts';
import type { PresentMinion } from './presence/present.ts';
import type { Renderer } from './rendering/renderer.ts';
import { FunctionCaller, type FunctionCallerOptions } from './runners/caller.ts';
import { saltRunners, saltWheels } from './runners/salt-names.ts';
import { runnerTable } from './runners/table.ts';
import type { TargetResolver } from './targeting/resolve.ts';
import { version } from './version.ts';
import { wheelTable } from './wheel/table.ts';

/** What they are made from. */
export interface ServiceParts extends Mine {
  readonly config: MasterConfig;
  readonly foundations: Foundations;
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
  readonly keys: KeysApi;
  readonly jobs: JobsApi;
  /** See {@link resumeJob}. */
  readonly resumeJob: (jid: string, signal?: AbortSignal) => AsyncIterable<JobUpdate>;
  readonly pillar: PillarApi;
  readonly runners: FunctionCaller;
  readonly wheel: FunctionCaller;
  readonly orchestrator: Orchestrator;
}

export function createServices(parts: ServiceParts): Services {
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
  const jobParts: JobsApiParts = {
    dispatcher,
    targets,
    cache: parts.jobs,
    defaults: config,
    facts: parts.facts,
    now: parts.now,
  };
  const jobs = createJobsApi(jobParts);
  const resume: Services['resumeJob'] = (jid, signal) => resumeJob(jobParts, jid, signal);
  const pillar = createPillarApi({ pillar: parts.pillar, facts: foundations.facts });
  return {
    keys,
    jobs,
    resumeJob: resume,
    pillar,
    ...createCallers(parts, { keys, jobs, ownKeys }),
  };
}

/** The callers as the interface gives them. */
export function toFunctionsApi(caller: FunctionCaller): FunctionsApi {
  return {
    run: (call) => caller.run(call),
    start: (call) => caller.start(call),
    docs: async (prefix) => caller.docs(prefix),
  };
}

function createCallers(
  parts: ServiceParts,
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

function ownKeysOf({ config, foundations }: ServiceParts): OwnKey[] {
  const { masterKeys, voucher } = foundations;
  const own = [{ name: 'master.pub', pem: masterKeys.publicPem }];
  if (voucher?.kind !== 'keys') return own;
  return [...own, { name: `${config.masterSignKeyName}.pub`, pem: voucher.keys.publicPem }];
}
