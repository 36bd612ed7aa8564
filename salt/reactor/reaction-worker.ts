/** Makes the calls of queued runs, up to a maximum number at a time for each reaction. */

import type { Logger } from 'pino';
import type { ReactionResult } from '#master';
import { linkSignals, sleepUntilAborted } from '#runtime';
import type { CompiledReaction } from './compile-reactions.ts';
import { addresseesOf, performRun, type ReactionCalls } from './perform-run.ts';
import type { TargetedCall } from './reaction-planner.ts';
import type { OpenRun, ReactionQueue } from './reaction-queue.ts';
import type { ReactionReports } from './reaction-reports.ts';

/**
 * Maximum time that a run of an earlier process waits for its minions to reconnect, in
 * milliseconds.
 */
const graceMs = 30_000;
const lookMs = 100;

export interface ReactionWorkerOptions extends ReactionCalls {
  readonly reactions: () => readonly CompiledReaction[];
  readonly queue: ReactionQueue;
  readonly reports: ReactionReports;
  /** Whether a minion is connected. */
  readonly isReachable: (id: string) => Promise<boolean>;
  /** Aborted when the master closes. Ends the wait for runs in progress. */
  readonly closing: AbortSignal;
  readonly log: Logger;
}

/** Makes the calls of queued runs. Runs of one reaction start in the order of the queue. */
export class ReactionWorker {
  readonly #options: ReactionWorkerOptions;
  /** Waiting runs, by name of the reaction and jid. */
  readonly #waiting = new Map<string, Map<string, OpenRun>>();
  /** Number of runs in progress, by name of the reaction. */
  readonly #running = new Map<string, number>();
  readonly #work = new Set<Promise<void>>();

  constructor(options: ReactionWorkerOptions) {
    this.#options = options;
  }

  /** Adds a queued run. It starts when the limit of its reaction allows. */
  start(run: OpenRun): void {
    const waiting = this.#waiting.get(run.reaction) ?? new Map<string, OpenRun>();
    this.#waiting.set(run.reaction, waiting.set(run.jid, run));
    this.startNext(run.reaction);
  }

  /**
   * Resumes runs that an earlier process queued and did not finish. New runs are added by `start`.
   */
  resume(left: readonly OpenRun[]): void {
    for (const run of left) {
      this.#track(run.isSent ? this.#end(run, { outcome: 'interrupted' }) : this.#whenPresent(run));
    }
  }

  /**
   * Waits until no run is in progress. Runs in progress end early after the `closing` signal is
   * aborted. They stay in the store for the next start.
   */
  async close(): Promise<void> {
    await Promise.all(this.#work);
  }

  /** Starts as many waiting runs of a reaction as its limit allows. */
  startNext(name: string): void {
    const { closing, log, queue } = this.#options;
    const { maxConcurrent = 1 } = this.#find(name)?.reaction ?? {};
    const running = this.#running.get(name) ?? 0;
    if (running >= maxConcurrent || closing.aborted) return;
    const waiting = this.#waiting.get(name);
    if (waiting === undefined) return;
    if (waiting.size === 0 && running === 0) this.#waiting.delete(name);
    const mayRun = queue.first(name, maxConcurrent) ?? waiting.keys();
    const jid = firstIn(mayRun, waiting);
    const run = waiting.get(jid ?? '');
    if (run === undefined) return;
    waiting.delete(run.jid);
    this.#running.set(name, running + 1);
    const work = this.#perform(run).catch((error: unknown) => {
      queue.leave(run.jid);
      log.error(
        { reaction: name, jid: run.jid, err: error },
        'cannot run the call of a reaction; the master retries the call at its next start',
      );
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
    // The run stays in the store. The next start checks whether its job was sent.
    if (closing.aborted) return;
    if (result.outcome === 'denied') reports.denied(run.reaction, run.jid, result.reason ?? '');
    await this.#end(run, result);
  }

  async #end({ jid, reaction }: OpenRun, { outcome, reason }: ReactionResult): Promise<void> {
    const { queue, reports, log } = this.#options;
    await queue.end(jid, outcome, reason);
    if (outcome !== 'denied') reports.count(outcome);
    log.info({ reaction, jid, outcome, reason }, 'finished a run of a reaction');
  }

  /**
   * Waits until the minions of a run are connected. After a restart of the master, minions need
   * some seconds to reconnect. A job that is published before then would not reach them.
   */
  async #whenPresent(run: OpenRun): Promise<void> {
    const { closing, isReachable } = this.#options;
    const deadline = performance.now() + graceMs;
    const { call } = run;
    while ('target' in call && performance.now() < deadline && !closing.aborted) {
      const minions = await this.#minionsOf(run.reaction, call);
      if ((await Promise.all(minions.map(isReachable))).every(Boolean)) break;
      await sleepUntilAborted(lookMs, closing);
    }
    this.start(run);
  }

  async #minionsOf(reaction: string, call: TargetedCall): Promise<readonly string[]> {
    try {
      return (await addresseesOf(this.#options, reaction, call)).minions;
    } catch {
      return [];
    }
  }

  #find(name: string): CompiledReaction | undefined {
    return this.#options.reactions().find(({ reaction }) => reaction.name === name);
  }

  #track(work: Promise<void>): void {
    const done = work
      .catch((error: unknown) => {
        this.#options.log.error(
          { err: error },
          'internal error while running the call of a reaction',
        );
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
