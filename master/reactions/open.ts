/** Reactions, from the parts of a master. */
import { setMaxListeners } from 'node:events';
import type { Logger } from 'pino';
import { hasRules, type Policy, type RuleAction } from '../../acl/index.ts';
import type { ReactionsApi } from '../api.ts';
import type { MasterConfig } from '../config/options.ts';
import type { EventBus } from '../events/bus.ts';
import type { NamedCommands } from '../extensions/extension.ts';
import type { FileServer } from '../fileserver/file-server.ts';
import { hiddenDirectories } from '../fileserver/open.ts';
import type { Foundations } from '../foundations.ts';
import type { JobDispatcher } from '../jobs/dispatcher.ts';
import { freshJid } from '../jobs/fresh-jid.ts';
import type { JobCache } from '../jobs/job-cache.ts';
import type { RequestCounters } from '../limits/counters.ts';
import { renderMs } from '../pillar/own-pillar.ts';
import type { Takes } from '../reactor/calls.ts';
import { openReactorFiles } from '../reactor/files.ts';
import { createReactorPlanner } from '../reactor/planner.ts';
import { Renderer } from '../rendering/renderer.ts';
import type { Services } from '../services.ts';
import type { TargetResolver } from '../targeting/resolve.ts';
import { type CompiledReaction, compileReactions } from './compiled-reaction.ts';
import { ReactionIntake } from './intake.ts';
import { followOwnEvents } from './own-events.ts';
import type { Planner } from './planner.ts';
import { type ReactionAction, serviceOf } from './reaction.ts';
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
  readonly services: Pick<Services, 'jobs' | 'runners' | 'wheel'>;
  /** `undefined`: no extension has any. */
  readonly commands: NamedCommands | undefined;
  readonly fileServer: FileServer;
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
  const rendering = new Renderer();
  const planSls = await openReactor(parts, rendering);
  let compiled = compileReactions(config, targets, planSls);
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
    wheel: parts.services.wheel,
    present: () => parts.present().map(({ id }) => id),
    closing,
  });
  const intake = new ReactionIntake({
    reactions,
    queue,
    reports,
    freshJid: () => freshJid(nextJid, jobs),
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
      const prepared = compileReactions(next, targets, planSls);
      return () => {
        compiled = prepared;
      };
    },
    close: async () => {
      end.abort();
      await Promise.all([following, worker.close(), rendering.close()]);
    },
  };
}

/** Plans by the files of the option `reactor`. */
async function openReactor(
  { config, fileServer, services, now }: ReactionParts,
  rendering: Renderer,
): Promise<(reference: string) => Planner> {
  const whitespace = {
    trimBlocks: config.jinjaTrimBlocks,
    lstripBlocks: config.jinjaLstripBlocks,
  };
  const files = await openReactorFiles({
    fileServer,
    hidden: hiddenDirectories(config),
    ...whitespace,
  });
  const rules = {
    masterId: config.id,
    renderer: config.renderer,
    ...whitespace,
    limits: { steps: config.limits.pillarSteps, milliseconds: renderMs },
  };
  const { runners, wheel } = services;
  const takes: Takes = (kind, fun, name) => (kind === 'runner' ? runners : wheel).takes(fun, name);
  return (reference) => createReactorPlanner(reference, { files, rules, rendering, takes, now });
}

/** What the policy is asked about. */
function actionsOf(action: ReactionAction): readonly RuleAction[] {
  if ('sls' in action) return ['publish', 'runner', 'wheel'];
  if ('command' in action) return ['command'];
  return 'run' in action ? ['publish'] : ['runner'];
}

/** A reaction is denied everything that no rule permits it. */
function warnOfPowerless(
  compiled: readonly CompiledReaction[],
  { policy, log }: Pick<ReactionParts, 'policy' | 'log'>,
): void {
  for (const { reaction } of compiled) {
    const { name, do: action } = reaction;
    const actions = actionsOf(action);
    if (actions.some((one) => hasRules(serviceOf(name), one, policy()))) continue;
    const fields = { reaction: name, action: actions.join(', ') };
    log.warn(fields, 'no rule permits this reaction anything');
  }
}
