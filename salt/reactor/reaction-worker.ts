/**
 * Executes the runs of the queue, so many of each reaction at a time, and reports what was not done.
 */

import type { Logger } from 'pino';
import { type Decision, decide, isUnlimited, type Policy, type Reach, reachOf } from '#acl';
import { serviceOf } from '#config';
import {
  callOf,
  type EventBus,
  type FunctionCaller,
  type InProcessJobsApi,
  isFailureCode,
  type JobDispatcher,
  MasterError,
  type NamedCommands,
  type ReactionResult,
  type RequestCounters,
  type TargetResolver,
  tags,
} from '#master';
import type { WireMap } from '#minion-protocol';
import { inTime, linkSignals, TokenBuckets } from '#runtime';
import type {
  CompiledReaction,
  MastersCall,
  PlannedCall,
  TargetedCall,
} from './reaction-planner.ts';
import type { OpenRun, ReactionQueue } from './reaction-queue.ts';

// One run: checks the rights of the reaction, and does the call.

/** What reactions can do. */
export interface ReactionCalls {
  /** In force. */
  readonly policy: { readonly current: Policy };
  readonly targets: Pick<TargetResolver, 'resolve' | 'resolveWithin'>;
  readonly jobs: Pick<InProcessJobsApi, 'run'>;
  readonly dispatcher: Pick<JobDispatcher, 'republish'>;
  readonly runners: Pick<FunctionCaller, 'run'>;
  readonly wheel: Pick<FunctionCaller, 'run'>;
  /** `undefined`: no extension has any. */
  readonly commands: () => NamedCommands | undefined;
}

interface PerformDeps extends ReactionCalls {
  /** Durable when it resolves: the run is not done again. */
  readonly markSent: (jid: string) => Promise<void>;
}

/**
 * Does a run to its end.
 * @param deadline ends the wait, not the work
 */
async function performRun(
  parts: PerformDeps,
  run: OpenRun,
  deadline: AbortSignal,
): Promise<ReactionResult> {
  const { call } = run;
  try {
    switch (call.kind) {
      case 'run':
        return await performJob(parts, run, call, deadline);
      case 'command':
        return await performCommand(parts, run, call, deadline);
      default:
        return await performHere(parts, run, call, deadline);
    }
  } catch (error) {
    // What is wrong with the call; everything else is for the log.
    if (error instanceof MasterError) return { outcome: 'unusable', reason: error.message };
    throw error;
  }
}

/**
 * The ids that a job of a reaction is for: those that match for certain, of the minions that rules
 * name for it. Only where it may do everything, the target is taken as it stands.
 * @throws MasterError ERR_BAD_TGT
 */
async function addresseesOf(
  { policy, targets }: Pick<PerformDeps, 'policy' | 'targets'>,
  reaction: string,
  call: TargetedCall,
): Promise<readonly string[]> {
  const { target } = call;
  const reach = reachOfReaction(policy.current, reaction, call);
  if (reach !== undefined) return targets.resolveWithin(target, reach);
  const { minions, problem } = await targets.resolve(target, { greedy: false });
  if (problem !== undefined) throw new MasterError('ERR_BAD_TGT', problem);
  return minions;
}

/** `undefined`: it may do everything. */
function reachOfReaction(policy: Policy, reaction: string, call: TargetedCall): Reach | undefined {
  const subject = serviceOf(reaction);
  if (isUnlimited(subject, policy)) return undefined;
  return reachOf({ subject, action: 'publish', calls: [callOf(call)] }, policy);
}

async function performJob(
  parts: PerformDeps,
  { jid, reaction }: OpenRun,
  call: TargetedCall,
  deadline: AbortSignal,
): Promise<ReactionResult> {
  const minions = await addresseesOf(parts, reaction, call);
  const isPermitted = reachOfReaction(parts.policy.current, reaction, call)?.isEmpty !== true;
  if (minions.length === 0 && isPermitted) return { outcome: 'nobody' };
  const decision = judge(parts, reaction, call, minions);
  // protection: judged-reactions
  if (decision.effect === 'deny') return denied(decision);
  if (await parts.dispatcher.republish(jid)) {
    // A master before this one was stopped between keeping the job and knowing that it had left.
    await parts.markSent(jid);
    return { outcome: 'interrupted' };
  }
  const { fun, arg, kwarg } = call;
  const who = serviceOf(reaction);
  const by = { who, rule: decision.rule };
  const request = { tgt: minions, tgtType: 'list', fun, arg, kwarg, user: who.name, jid, by };
  let failed = 0;
  let silent = 0;
  for await (const update of parts.jobs.run(request, deadline)) {
    if (update.type === 'published') await parts.markSent(jid);
    if (update.type === 'return' && isFailureCode(update.retcode)) failed += 1;
    if (update.type === 'finished') silent = update.silent.length + update.reconnecting.length;
  }
  if (deadline.aborted) return { outcome: 'timeout' };
  if (failed + silent === 0) return { outcome: 'succeeded' };
  const reason = `of ${minions.length} minions ${failed} failed and ${silent} did not answer`;
  return { outcome: 'failed', reason };
}

/** It is its own to decide whether it may, and to do it once, however often it is asked. */
async function performCommand(
  { commands: named }: PerformDeps,
  { jid, reaction }: OpenRun,
  { fun: command, target, kwarg: params }: TargetedCall,
  deadline: AbortSignal,
): Promise<ReactionResult> {
  const commands = named();
  if (commands === undefined) {
    return { outcome: 'unusable', reason: 'this master has no named commands' };
  }
  const caller = serviceOf(reaction);
  return commands.run({ jid, caller, command, target, params }, deadline);
}

async function performHere(
  parts: PerformDeps,
  { jid, reaction }: OpenRun,
  call: MastersCall,
  deadline: AbortSignal,
): Promise<ReactionResult> {
  const decision = judge(parts, reaction, call, []);
  // protection: runners-of-reactions
  if (decision.effect === 'deny') return denied(decision);
  // Before it starts: nothing knows a runner's jid again, so it is rather not done than done twice.
  await parts.markSent(jid);
  const { kind, fun, arg, kwarg } = call;
  const who = serviceOf(reaction);
  const by = { who, rule: decision.rule };
  const caller = kind === 'runner' ? parts.runners : parts.wheel;
  const work = caller.run({ fun, arg, kwarg, user: who.name, jid, by });
  const result = await inTime(work, deadline);
  if (result === undefined) return { outcome: 'timeout' };
  const isFailure = !result.success || isFailureCode(result.retcode ?? 0);
  return { outcome: isFailure ? 'failed' : 'succeeded' };
}

function judge(
  { policy }: PerformDeps,
  reaction: string,
  call: PlannedCall,
  minions: readonly string[],
): Decision {
  const subject = serviceOf(reaction);
  if (!('target' in call)) {
    return decide({ subject, action: call.kind, resource: { call: callOf(call) } }, policy.current);
  }
  const resource = { calls: [callOf(call)], minions };
  return decide({ subject, action: 'publish', resource }, policy.current);
}

function denied({ rule, reason }: Decision): ReactionResult {
  return { outcome: 'denied', reason: `${rule}: ${reason}` };
}

/** How long a run that a master before this one left waits for its minions to come back. */
const graceMs = 30_000;
const lookMs = 100;

export interface ReactionWorkerOptions extends ReactionCalls {
  readonly reactions: () => readonly CompiledReaction[];
  readonly queue: ReactionQueue;
  readonly reports: ReactionReports;
  /** Ids of the minions that listen now. */
  readonly present: () => readonly string[];
  /** Ends the wait for what is under way. */
  readonly closing: AbortSignal;
  readonly log: Logger;
}

/** Executes the queue. Runs of one reaction start in the order in which they were queued. */
export class ReactionWorker {
  readonly #options: ReactionWorkerOptions;
  /** By reaction and jid. */
  readonly #waiting = new Map<string, Map<string, OpenRun>>();
  /** Runs under way, by reaction. */
  readonly #running = new Map<string, number>();
  readonly #work = new Set<Promise<void>>();

  constructor(options: ReactionWorkerOptions) {
    this.#options = options;
  }

  /** Takes a run that is in the queue. */
  start(run: OpenRun): void {
    const waiting = this.#waiting.get(run.reaction) ?? new Map<string, OpenRun>();
    this.#waiting.set(run.reaction, waiting.set(run.jid, run));
    this.startNext(run.reaction);
  }

  /** Takes what a master before this one left; what has come since is taken already. */
  resume(left: readonly OpenRun[]): void {
    for (const run of left) {
      this.#track(run.isSent ? this.#end(run, { outcome: 'interrupted' }) : this.#whenPresent(run));
    }
  }

  /** Waits for what is under way, which the closing signal ends. */
  async close(): Promise<void> {
    await Promise.all(this.#work);
  }

  /** Starts what may run now of a reaction. */
  startNext(name: string): void {
    const { closing, log, queue } = this.#options;
    const { maxConcurrent = 1 } = this.#find(name)?.reaction ?? {};
    const running = this.#running.get(name) ?? 0;
    if (running >= maxConcurrent || closing.aborted) return;
    const waiting = this.#waiting.get(name);
    if (waiting === undefined) return;
    if (waiting.size === 0 && running === 0) this.#waiting.delete(name);
    // protection: concurrency-of-all-members
    const mayRun = queue.first(name, maxConcurrent) ?? waiting.keys();
    const jid = firstIn(mayRun, waiting);
    const run = waiting.get(jid ?? '');
    if (run === undefined) return;
    waiting.delete(run.jid);
    this.#running.set(name, running + 1);
    const work = this.#perform(run).catch((error: unknown) => {
      queue.leave(run.jid);
      log.error({ reaction: name, jid: run.jid, err: error }, 'reaction left for the next start');
    });
    this.#track(
      work.finally(() => {
        this.#running.set(name, (this.#running.get(name) ?? 1) - 1);
        this.startNext(name);
      }),
    );
    this.startNext(name);
  }

  async #perform(run: OpenRun): Promise<void> {
    const { queue, reports, closing } = this.#options;
    const compiled = this.#find(run.reaction);
    if (compiled === undefined) return this.#end(run, { outcome: 'removed' });
    const parts = { ...this.#options, markSent: (jid: string) => queue.markSent(jid) };
    const timeout = AbortSignal.timeout(compiled.reaction.timeoutSeconds * 1000);
    const { signal, unlink } = linkSignals(timeout, closing);
    const result = await performRun(parts, run, signal).finally(unlink);
    // It stays in the store: the next start looks whether it has left.
    if (closing.aborted) return;
    if (result.outcome === 'denied') reports.denied(run.reaction, run.jid, result.reason ?? '');
    await this.#end(run, result);
  }

  async #end({ jid, reaction }: OpenRun, { outcome, reason }: ReactionResult): Promise<void> {
    const { queue, reports, log } = this.#options;
    await queue.end(jid, outcome, reason);
    if (outcome !== 'denied') reports.count(outcome);
    log.info({ reaction, jid, outcome, reason }, 'reaction ended');
  }

  /** Minions need some seconds to come back to a master; what is published before is lost to them. */
  async #whenPresent(run: OpenRun): Promise<void> {
    const { closing, present } = this.#options;
    const deadline = performance.now() + graceMs;
    const { call } = run;
    while ('target' in call && performance.now() < deadline && !closing.aborted) {
      const there = new Set(present());
      const minions = await addresseesOf(this.#options, run.reaction, call).catch(() => []);
      if (minions.every((id) => there.has(id))) break;
      await pause(lookMs, closing);
    }
    this.start(run);
  }

  #find(name: string): CompiledReaction | undefined {
    return this.#options.reactions().find(({ reaction }) => reaction.name === name);
  }

  #track(work: Promise<void>): void {
    const done = work
      .catch((error: unknown) => {
        this.#options.log.error({ err: error }, 'reaction was not finished');
      })
      .finally(() => this.#work.delete(done));
    this.#work.add(done);
  }
}

function firstIn(
  jids: Iterable<string>,
  waiting: ReadonlyMap<string, OpenRun>,
): string | undefined {
  for (const jid of jids) if (waiting.has(jid)) return jid;
  return undefined;
}

/** Ends early with the signal. */
function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, milliseconds);
    signal.addEventListener('abort', end, { once: true });
  });
}

// Reports of runs that were not done: each is counted; logged and emitted once a burst.

export interface ReactionReportOptions {
  readonly bus: EventBus;
  readonly counters: RequestCounters;
  readonly log: Logger;
  readonly now: () => number;
}

/** Reports runs that were not done. A burst is a minute, for each reaction and reason. */
export class ReactionReports {
  readonly #options: ReactionReportOptions;
  readonly #bursts: TokenBuckets;

  constructor(options: ReactionReportOptions) {
    this.#options = options;
    this.#bursts = new TokenBuckets({ perSecond: 1 / 60, burst: 1 }, options.now);
  }

  /** Counts what needs nobody's attention. */
  count(reason: string): void {
    this.#options.counters.count(`reaction-${reason}`);
  }

  /** An event was wanted, and nothing follows from it. */
  dropped(reaction: string, reason: string, fields: WireMap): void {
    this.#tell('dropped', reaction, reason, fields);
  }

  /** A run that no rule permits. */
  denied(reaction: string, jid: string, reason: string): void {
    this.#tell('denied', reaction, 'denied', { jid, why: reason });
  }

  #tell(kind: 'dropped' | 'denied', reaction: string, reason: string, fields: WireMap): void {
    const { bus, log } = this.#options;
    this.count(reason);
    if (!this.#bursts.tryTake(JSON.stringify([reaction, reason]))) return;
    log.warn({ reaction, reason, ...fields }, `reaction ${kind}`);
    bus.fire(tags.reaction(kind), { reaction, reason, ...fields });
  }
}
