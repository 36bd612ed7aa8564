/** Reactions, from the parts of a master. */
import { setMaxListeners } from 'node:events';
import type { Logger } from 'pino';
import { hasRules, type Policy } from '../../acl/index.ts';
import type { ReactionsApi } from '../api.ts';
import type { MasterConfig } from '../config/options.ts';
import type { EventBus } from '../events/bus.ts';
import type { Foundations } from '../foundations.ts';
import type { JobDispatcher } from '../jobs/dispatcher.ts';
import type { JobCache } from '../jobs/job-cache.ts';
import type { RequestCounters } from '../limits/counters.ts';
import type { Services } from '../services.ts';
import type { TargetResolver } from '../targeting/resolve.ts';
import { type CompiledReaction, compileReactions } from './compiled-reaction.ts';
import { ReactionIntake } from './intake.ts';
import { followOwnEvents } from './own-events.ts';
import { serviceOf } from './reaction.ts';
import { ReactionQueue } from './reaction-queue.ts';
import { createReactionsApi } from './reactions-api.ts';
import { ReactionReports } from './reports.ts';
import { ReactionWorker } from './worker.ts';

/** What they are made from. */
export interface ReactionParts {
  readonly config: MasterConfig;
  readonly policy: () => Policy;
  readonly foundations: Pick<Foundations, 'store'>;
  readonly bus: EventBus;
  readonly targets: TargetResolver;
  readonly dispatcher: JobDispatcher;
  readonly jobs: JobCache;
  readonly services: Pick<Services, 'jobs' | 'runners'>;
  readonly nextJid: () => string;
  readonly counters: RequestCounters;
  readonly present: () => readonly { readonly id: string }[];
  readonly closing: AbortSignal;
  readonly now: () => number;
  readonly log: Logger;
}

/** The reactions of a master. */
export interface Reactions {
  readonly api: ReactionsApi;
  readonly intake: ReactionIntake;
  /** Begins with what a master before this one left, and with the master's own events. */
  start(): void;
  /** Compiles those of another configuration. @returns puts them in force */
  prepare(config: MasterConfig): () => void;
  /** Waits for what is under way, which the closing signal ends. */
  close(): Promise<void>;
}

/** @throws StoreError ERR_STORE_CORRUPT */
export async function openReactions(parts: ReactionParts): Promise<Reactions> {
  const { config, foundations, targets, bus, jobs, nextJid, now, log } = parts;
  const end = new AbortController();
  const closing = AbortSignal.any([parts.closing, end.signal]);
  // Every run that is under way listens to it.
  setMaxListeners(0, closing);
  let compiled = compileReactions(config, targets);
  const reactions = (): readonly CompiledReaction[] => compiled;
  const reports = new ReactionReports(parts);
  const queue = await ReactionQueue.open({
    store: foundations.store,
    get keepMs() {
      return config.keepJobsSeconds * 1000;
    },
    keepMarksMs: config.publishSession * 1000,
    now,
  });
  const left = queue.open;
  const worker = new ReactionWorker({
    ...parts,
    reactions,
    queue,
    reports,
    jobs: parts.services.jobs,
    runners: parts.services.runners,
    present: () => parts.present().map(({ id }) => id),
    closing,
  });
  const intake = new ReactionIntake({
    reactions,
    queue,
    reports,
    freshJid: async () => {
      let jid = nextJid();
      while ((await jobs.find(jid)) !== undefined) jid = nextJid();
      return jid;
    },
    now,
    onQueued: (run) => worker.start(run),
  });
  let following = Promise.resolve();
  return {
    api: createReactionsApi({ reactions, queue }),
    intake,
    start: () => {
      warnOfPowerless(compiled, parts);
      worker.resume(left);
      following = followOwnEvents({ bus, intake, reports, closing }).catch((error: unknown) => {
        log.error({ err: error }, "the master's own events lead to no reactions any more");
      });
    },
    prepare: (next) => {
      const prepared = compileReactions(next, targets);
      return () => {
        compiled = prepared;
      };
    },
    close: async () => {
      end.abort();
      await Promise.all([following, worker.close()]);
    },
  };
}

/** A reaction is denied everything that no rule permits it. */
function warnOfPowerless(
  compiled: readonly CompiledReaction[],
  { policy, log }: Pick<ReactionParts, 'policy' | 'log'>,
): void {
  for (const { reaction } of compiled) {
    const action = 'run' in reaction.do ? 'publish' : 'runner';
    if (hasRules(serviceOf(reaction.name), action, policy())) continue;
    log.warn({ reaction: reaction.name, action }, 'no rule permits this reaction anything');
  }
}
