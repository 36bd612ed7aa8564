/**
 * Reactions: which events start which runs, the interface `reactions`, and how all of it is opened.
 */

import { setMaxListeners } from 'node:events';
import type { Logger } from 'pino';
import { hasRules, type RuleAction } from '#acl';
import { type LiveConfig, type MasterConfig, type ReactionAction, serviceOf } from '#config';
import {
  type EventBus,
  type Events,
  type Functions,
  type Jobs,
  jidOf,
  type MasterContext,
  MasterError,
  type NamedCommands,
  type ReactionInfo,
  type ReactionRun,
  type ReactionsApi,
  type TriggerEvent,
  type Users,
} from '#master';
import { StoreError } from '#store';
import { type FileServer, hiddenDirectories } from '../file-trees/file-server.ts';
import { Renderer, renderMs } from '../render/renderer.ts';
import {
  type CompiledReaction,
  compileReactions,
  type PlannedCall,
  type Planner,
  valueAt,
} from './reaction-planner.ts';
import {
  type EndedRun,
  type OpenRun,
  type QueueConditions,
  ReactionQueue,
} from './reaction-queue.ts';
import { type ReactionCalls, ReactionReports, ReactionWorker } from './reaction-worker.ts';
import { createReactorPlanner, openReactorFiles, type Takes } from './reactor-files.ts';
import type { ReactorEntries } from './reactor-runner.ts';

// Intake: from events to runs in the queue.

/** How many runs may lead to one another; what goes on beyond it is a loop. */
const maxDepth = 3;

interface AskedCall {
  readonly call: PlannedCall;
  readonly depth: number;
  readonly conditions: QueueConditions;
}

interface ReactionIntakeOptions {
  readonly reactions: () => readonly CompiledReaction[];
  readonly queue: ReactionQueue;
  readonly reports: ReactionReports;
  /** A jid that no job has. */
  readonly freshJid: () => Promise<string>;
  readonly now: () => number;
  /** Told of each run that is in the queue. */
  readonly onQueued: (run: OpenRun) => void;
}

/** Finds what follows from events, and keeps it. */
class ReactionIntake {
  readonly #options: ReactionIntakeOptions;

  constructor(options: ReactionIntakeOptions) {
    this.#options = options;
  }

  /** Whether a reaction waits for events of this tag. */
  isWanted(tag: string): boolean {
    return this.#options.reactions().some((it) => it.matches(tag));
  }

  /**
   * Keeps the runs that follow from an event; they are durable when it resolves. The same request
   * again adds none.
   * @throws StoreError when they cannot be kept
   */
  async take(occurrence: TriggerEvent): Promise<undefined> {
    const wanting = this.#options
      .reactions()
      .filter((it) => it.matches(occurrence.tag) && it.isFrom(occurrence.sender));
    for (const compiled of wanting) await this.#takeFor(compiled, occurrence);
  }

  async #takeFor(compiled: CompiledReaction, occurrence: TriggerEvent): Promise<void> {
    const { reports } = this.#options;
    const { name } = compiled.reaction;
    const { tag } = occurrence;
    if (!compiled.isGuaranteedBy(occurrence.rule))
      return reports.dropped(name, 'no-schema', { tag });
    const depth = await this.#depthOf(occurrence.jid);
    if (depth > maxDepth) return reports.dropped(name, 'depth', { tag });
    const plan = await compiled.plan(occurrence);
    for (const { reason, ...more } of plan.refused) reports.dropped(name, reason, { tag, ...more });
    for (const [place, call] of plan.calls.entries()) {
      await this.#takeCall(compiled, occurrence, {
        call,
        depth,
        conditions: conditionsOf(compiled, occurrence, place),
      });
    }
  }

  async #takeCall(
    compiled: CompiledReaction,
    { tag, sender }: TriggerEvent,
    asked: AskedCall,
  ): Promise<void> {
    const { queue, reports, now } = this.#options;
    const { name } = compiled.reaction;
    const { mark, window } = asked.conditions;
    if (await queue.isKnown(mark)) return reports.count('repeated');
    if (await queue.isWithin(name, window)) reports.count('once');
    else if (!compiled.meter.tryTake('', now())) reports.dropped(name, 'rate', { tag });
    else if (await this.#queue(compiled, { tag, sender }, asked)) return;
    await queue.remember(mark);
  }

  /** @returns whether it is in the queue, or was before */
  async #queue(
    { reaction }: CompiledReaction,
    { tag, sender }: Pick<TriggerEvent, 'tag' | 'sender'>,
    { call, depth, conditions }: AskedCall,
  ): Promise<boolean> {
    const { queue, reports, now, onQueued } = this.#options;
    const jid = await this.#options.freshJid();
    if (queue.count(reaction.name) >= reaction.queue + reaction.maxConcurrent) {
      reports.dropped(reaction.name, 'queue', { tag });
      return false;
    }
    const from = sender === undefined ? {} : { sender };
    const run = {
      jid,
      reaction: reaction.name,
      tag,
      ...from,
      depth,
      queuedAt: now(),
      call,
      isSent: false,
    };
    const outcome = await queue.add(run, conditions);
    reports.count(outcome);
    if (outcome === 'queued') onQueued(run);
    return outcome !== 'once';
  }

  /** How many runs led to an event. */
  async #depthOf(jid: string | undefined): Promise<number> {
    const cause = jid === undefined ? undefined : await this.#options.queue.find(jid);
    return cause === undefined ? 0 : cause.depth + 1;
  }
}

function conditionsOf(
  { reaction }: CompiledReaction,
  occurrence: TriggerEvent,
  place: number,
): QueueConditions {
  const { name, throttleSeconds, throttleKey } = reaction;
  const { sender, request } = occurrence;
  const mark =
    sender === undefined || request === undefined
      ? undefined
      : {
          minion: sender,
          request: request.mark,
          place: JSON.stringify([name, request.place, place]),
        };
  const values = [place, ...throttleKey.map((from) => valueAt(from, occurrence))];
  const window = throttleSeconds === 0 ? undefined : { values, lengthMs: throttleSeconds * 1000 };
  return { mark, window };
}

// Events of the master itself.

interface OwnEventDeps {
  readonly bus: EventBus;
  readonly intake: ReactionIntake;
  readonly reports: ReactionReports;
  readonly closing: AbortSignal;
}

/**
 * Hands on what the master fires until the signal comes. The bus only tells: what it has told and
 * nobody has kept yet is lost with the process.
 */
async function followOwnEvents(parts: OwnEventDeps): Promise<void> {
  for (;;) {
    try {
      return await follow(parts);
    } catch (error) {
      if (!(error instanceof MasterError && error.code === 'ERR_READER_DROPPED')) throw error;
      parts.reports.dropped('*', 'too-many-events', {});
    }
  }
}

/** What no event of the master's own has. */
const nobodys = {
  sender: undefined,
  data: undefined,
  rule: undefined,
  request: undefined,
} as const;

async function follow({ bus, intake, reports, closing }: OwnEventDeps): Promise<void> {
  const events = bus.subscribe({
    accepts: (tag) => intake.isWanted(tag),
    isOwnOnly: true,
    signal: closing,
  });
  for await (const { tag, data } of events) {
    try {
      await intake.take({ ...nobodys, tag, body: data, jid: jidOf(tag, data) });
    } catch (error) {
      // A disk that is full has room again some day.
      if (!(error instanceof StoreError)) throw error;
      reports.dropped('*', 'not-kept', { tag, code: error.code });
    }
  }
}

// The interface `reactions`.

interface ReactionsApiDeps {
  readonly reactions: () => readonly CompiledReaction[];
  readonly queue: ReactionQueue;
}

function createReactionsApi({ reactions, queue }: ReactionsApiDeps): ReactionsApi {
  const describe = ({ reaction }: CompiledReaction): ReactionInfo => {
    const open = queue.open.filter((run) => run.reaction === reaction.name);
    const sent = open.filter(({ isSent }) => isSent).length;
    return { ...reaction, waiting: open.length - sent, running: sent };
  };
  return {
    list: async () => reactions().map(describe),
    show: async (name) => {
      const found = reactions().find(({ reaction }) => reaction.name === name);
      if (found === undefined) {
        throw new MasterError('ERR_REACTION_UNKNOWN', 'there is no reaction of this name');
      }
      return describe(found);
    },
    runs: async ({ reaction, limit = 100 } = {}) => {
      const isMeant = (run: OpenRun | EndedRun): boolean =>
        reaction === undefined || run.reaction === reaction;
      const open = queue.open.filter(isMeant);
      const runs: ReactionRun[] = [...open].reverse().slice(0, limit).map(toRun);
      if (runs.length >= limit) return runs;
      for await (const run of queue.ended()) {
        if (isMeant(run)) runs.push(toRun(run));
        if (runs.length >= limit) break;
      }
      return runs;
    },
  };
}

function toRun(run: OpenRun | EndedRun): ReactionRun {
  const { call, depth: _depth, ...rest } = run;
  const common = { jid: rest.jid, reaction: rest.reaction, tag: rest.tag, queuedAt: rest.queuedAt };
  const sender = rest.sender === undefined ? {} : { sender: rest.sender };
  const described = { ...common, ...sender, kind: call.kind, fun: call.fun };
  if ('isSent' in rest) return { ...described, state: rest.isSent ? 'running' : 'waiting' };
  const reason = rest.reason === undefined ? {} : { reason: rest.reason };
  return { ...described, state: rest.outcome, endedAt: rest.endedAt, ...reason };
}

/** Between two looks for what members left that are gone. */
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
  readonly api: ReactionsApi;
  readonly intake: ReactionIntake;
  /** Begins with what a master before this one left, and with the master's own events. */
  start(): void;
}

/** @throws StoreError ERR_STORE_CORRUPT */
export async function createReactor(deps: ReactionDeps): Promise<Reactions> {
  const { config, context, events, jobs, calls, sls, reactors } = deps;
  const { store, cluster, duties, now, counters, closers } = context;
  const { bus } = events;
  const log = context.log.child({ component: 'reactions' });
  const end = new AbortController();
  const closing = AbortSignal.any([context.closing, end.signal]);
  // Every run that is under way listens to it.
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
  const present = (): string[] => jobs.present().map(({ id }) => id);
  const worker = new ReactionWorker({
    ...calls,
    reactions,
    queue,
    reports,
    present,
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
  /** In a cluster: goes on with what other processes left. */
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
        log.warn({ err: error }, 'what another member left of reactions was not taken over');
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
      warnOfPowerless(compiled, calls, log);
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
        log.error({ err: error }, "the master's own events lead to no reactions any more");
      });
    },
  };
}

export interface ReactionCallDeps {
  readonly jobs: Jobs;
  readonly users: Users;
  readonly functions: Functions;
  /** Returns the named commands of an extension, or `undefined`. */
  readonly commands: () => NamedCommands | undefined;
}

/** What reactions can do, by the policy. */
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

/** Plans by a file of the option `reactor`. */
type ReactorSls = (reference: string) => Planner;

export async function createReactorSls({
  config: { fixed: config },
  context,
  fileServer,
  functions,
}: ReactorSlsDeps): Promise<ReactorSls> {
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
    renderer: config.renderer,
    ...whitespace,
    limits: { steps: config.limits.pillarSteps, milliseconds: renderMs },
  };
  const { runners, wheel } = functions;
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
  { policy }: ReactionCalls,
  log: Logger,
): void {
  for (const { reaction } of compiled) {
    const { name, do: action } = reaction;
    const actions = actionsOf(action);
    if (actions.some((one) => hasRules(serviceOf(name), one, policy.current))) continue;
    const fields = { reaction: name, action: actions.join(', ') };
    log.warn(fields, 'no rule permits this reaction anything');
  }
}
