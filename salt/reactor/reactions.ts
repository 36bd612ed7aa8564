/** Opens the reactions of a master: configured reactions and Salt's reactor files. */

import { setMaxListeners } from 'node:events';
import type { Logger } from 'pino';
import { hasRules, type RuleAction } from '#acl';
import { type LiveConfig, type MasterConfig, type ReactionAction, serviceOf } from '#config';
import type {
  Events,
  Functions,
  Jobs,
  MasterApi,
  MasterContext,
  OpenExtension,
  Users,
} from '#master';
import type { FileServer } from '../file-trees/file-server.ts';
import { hiddenDirectories } from '../file-trees/open-file-roots.ts';
import { masterOptionsOf } from '../render/master-options.ts';
import { Renderer, renderMs } from '../render/renderer.ts';
import { type CompiledReaction, compileReactions } from './compile-reactions.ts';
import { followOwnEvents } from './own-events.ts';
import type { ReactionCalls } from './perform-run.ts';
import { ReactionIntake } from './reaction-intake.ts';
import type { Planner } from './reaction-planner.ts';
import { ReactionQueue } from './reaction-queue.ts';
import { ReactionReports } from './reaction-reports.ts';
import { ReactionWorker } from './reaction-worker.ts';
import { createReactionsApi } from './reactions-api.ts';
import type { Takes } from './reactor-call.ts';
import { openReactorFiles } from './reactor-files.ts';
import { createReactorPlanner } from './reactor-planner.ts';
import type { ReactorEntries } from './reactor-runner.ts';

/** Interval between checks for runs of members that have stopped, in milliseconds. */
const takeOverMs = 5000;

export interface ReactionDeps {
  readonly config: LiveConfig;
  readonly context: MasterContext;
  readonly events: Events;
  readonly jobs: Jobs;
  readonly calls: ReactionCalls;
  readonly sls: ReactorSls;
  readonly reactors: ReactorEntries;
}

/** The reactions of a master. */
export interface Reactions {
  readonly api: MasterApi['reactions'];
  readonly intake: ReactionIntake;
  /** Resumes the runs of an earlier process, and starts to receive the master's own events. */
  start(): void;
}

/**
 * Opens the reactions.
 * @throws StoreError ERR_STORE_CORRUPT
 */
export async function createReactor(deps: ReactionDeps): Promise<Reactions> {
  const { config, context, events, jobs, calls, sls, reactors } = deps;
  const { store, cluster, duties, now, counters, closers } = context;
  const { bus } = events;
  const log = context.log.child({ component: 'reactions' });
  const end = new AbortController();
  const closing = AbortSignal.any([context.closing, end.signal]);
  // Each running run adds a listener to this signal.
  setMaxListeners(0, closing);
  const compile = (current: MasterConfig): CompiledReaction[] =>
    compileReactions({ ...current, reactor: reactors.over(current.reactor) }, jobs.targets, sls);
  let compiled = compile(config.all);
  reactors.onChange = () => {
    compiled = compile(config.all);
  };
  config.beforeChange((next) => {
    const prepared = compile(next);
    return () => {
      compiled = prepared;
    };
  });
  const reactions = (): readonly CompiledReaction[] => compiled;
  const reports = new ReactionReports({ bus, counters, log, now });
  const queue = await ReactionQueue.open({
    store,
    cluster,
    log,
    keepMs: config.current.keepJobsSeconds * 1000,
    keepMarksMs: config.fixed.publishSession * 1000,
    now,
  });
  config.onChange(({ keepJobsSeconds }) => queue.keepFor(keepJobsSeconds * 1000));
  const left = cluster === undefined ? queue.open : [];
  const worker = new ReactionWorker({
    ...calls,
    reactions,
    queue,
    reports,
    isReachable: (id) => jobs.isReachable(id),
    closing,
    log,
  });
  const intake = new ReactionIntake({
    reactions,
    queue,
    reports,
    freshJid: () => jobs.freshJid(),
    now,
    onQueued: (run) => worker.start(run),
  });
  let looking = Promise.resolve();
  /** In a cluster, takes over the runs of processes that have stopped. */
  const takeOver = (): void => {
    looking = looking
      .then(async () => {
        if (closing.aborted) return;
        for (const jid of queue.abandoned(duties?.isHeld === true)) {
          const run = await queue.take(jid);
          if (run !== undefined) worker.resume([run]);
        }
      })
      .catch((error: unknown) => {
        log.warn(
          { err: error },
          'cannot take over the pending reactions of another cluster member; retrying',
        );
      });
  };
  let following = Promise.resolve();
  closers.add(worker, async (it) => {
    end.abort();
    await Promise.all([following, looking, it.close()]);
    await queue.leaveAll();
  });
  return {
    api: createReactionsApi({ reactions, queue }),
    intake,
    start: () => {
      warnAboutDenied(compiled, calls, log);
      worker.resume(left);
      if (cluster !== undefined) {
        queue.onLeft = takeOver;
        queue.onEnded = (reaction) => worker.startNext(reaction);
        duties?.onHeld(takeOver);
        const timer = setInterval(takeOver, takeOverMs).unref();
        closing.addEventListener('abort', () => clearInterval(timer), { once: true });
        takeOver();
      }
      following = followOwnEvents({ bus, intake, reports, closing }).catch((error: unknown) => {
        log.error(
          { err: error },
          "the master's own events no longer trigger reactions; restart the master",
        );
      });
    },
  };
}

export interface ReactionCallDeps {
  readonly jobs: Jobs;
  readonly users: Users;
  readonly functions: Functions;
  /** Returns the service of named commands, or `undefined` if no extension provides it. */
  readonly commands: () => NonNullable<OpenExtension['commands']> | undefined;
}

/** Returns the interfaces of the master through which reactions make their calls. */
export function createReactionCalls({
  jobs,
  users,
  functions,
  commands,
}: ReactionCallDeps): ReactionCalls {
  const { targets, dispatcher, api } = jobs;
  const { runners, wheel } = functions;
  return { policy: users.policy, targets, dispatcher, jobs: api, runners, wheel, commands };
}

export interface ReactorSlsDeps {
  readonly config: LiveConfig;
  readonly context: MasterContext;
  readonly fileServer: FileServer;
  readonly functions: Functions;
}

/** Function that creates the planner for a file of the option `reactor`. */
type ReactorSls = (reference: string) => Planner;

export async function createReactorSls({
  config: live,
  context,
  fileServer,
  functions,
}: ReactorSlsDeps): Promise<ReactorSls> {
  const { fixed: config } = live;
  const { now, closers } = context;
  const rendering = closers.add(new Renderer(), (it) => it.close());
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
    masterOptions: masterOptionsOf(live),
    renderer: config.renderer,
    ...whitespace,
    limits: { steps: config.limits.pillarSteps, milliseconds: renderMs },
  };
  const { runners, wheel } = functions;
  const takes: Takes = (kind, fun, name) => (kind === 'runner' ? runners : wheel).takes(fun, name);
  return (reference) => createReactorPlanner(reference, { files, rules, rendering, takes, now });
}

/** Returns the policy actions that a reaction uses. */
function actionsOf(action: ReactionAction): readonly RuleAction[] {
  if ('sls' in action) return ['publish', 'runner', 'wheel'];
  if ('command' in action) return ['command'];
  return 'run' in action ? ['publish'] : ['runner'];
}

/**
 * Logs a warning for each reaction to which no access rule applies, because all of its calls will
 * be denied.
 */
function warnAboutDenied(
  compiled: readonly CompiledReaction[],
  { policy }: ReactionCalls,
  log: Logger,
): void {
  for (const { reaction } of compiled) {
    const { name, do: action } = reaction;
    const actions = actionsOf(action);
    if (actions.some((one) => hasRules(serviceOf(name), one, policy.current))) continue;
    const fields = { reaction: name, action: actions.join(', ') };
    log.warn(fields, 'no rule permits the call of this reaction, so the reaction will not run');
  }
}
