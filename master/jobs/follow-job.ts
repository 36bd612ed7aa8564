/**
 * Follows a job to its end: returns, minions that are still running it, and a summary; also a job of
 * an earlier master process.
 */

import { randomInt } from 'node:crypto';
import type { LiveConfig } from '#config';
import type { WireValue } from '#minion-protocol';
import { BoundedQueue } from '#runtime';
import {
  type BatchRequest,
  type BatchUpdate,
  type Delivery,
  type InProcessJobsApi,
  type JobReturn,
  type JobUpdate,
  MasterError,
  type RunRequest,
  type SilenceReason,
} from '../api/index.ts';
import type { JobDispatcher } from './dispatcher.ts';
import type { Job } from './job.ts';
import type { JobCache } from './job-cache.ts';
import { isFailureCode } from './job-return.ts';
import type { JobRecord } from './job-row.ts';
import { ParallelJobs } from './parallel-jobs.ts';

/**
 * Which of these minions answer `saltutil.find_job` with more than an empty map. The round ends
 * when all do so, or after its time: who says that it runs no such job may have ended it just now,
 * with the return still on its way, or not have begun [salt/client/__init__.py get_iter_returns].
 */
export async function findRunning(
  dispatcher: Pick<JobDispatcher, 'publishUnkept'>,
  jid: string,
  minions: readonly string[],
  gatherMs: number,
  end: AbortSignal,
): Promise<Set<string>> {
  const running = new Set<string>();
  let finish = (): void => {};
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const timer = setTimeout(finish, gatherMs);
  end.addEventListener('abort', finish, { once: true });
  const note = (result: JobReturn): void => {
    if (isRunningJob(result.return)) running.add(result.minion);
    if (running.size === minions.length) finish();
  };
  let stopListening = (): void => {};
  try {
    stopListening = await dispatcher.publishUnkept(minions, 'saltutil.find_job', [jid], note);
    await finished;
  } finally {
    stopListening();
    clearTimeout(timer);
    end.removeEventListener('abort', finish);
  }
  return running;
}

function isRunningJob(value: WireValue): boolean {
  if (value === null || typeof value !== 'object') return false;
  return value instanceof Map ? value.size > 0 : Object.keys(value).length > 0;
}

/** What the rest of the master knows of minions. */
export interface MinionFacts {
  readonly isAccepted: (minionId: string) => boolean;
  /** Milliseconds since 1970; `undefined`: not since the start. */
  readonly lastHeardAt: (minionId: string) => number | undefined;
  /**
   * Whether it is away after a restart of the master, or came back too late for a job that was
   * published meanwhile.
   * @param publishedAt milliseconds since 1970
   */
  readonly isReconnecting: (minionId: string, publishedAt: number) => boolean;
}

/** What counts of a return. */
type LedgerReturn = Pick<JobReturn, 'minion' | 'resource' | 'retcode' | 'receivedAt'>;

/** What is known of one job's returns. */
export interface JobProgress {
  readonly returns: readonly LedgerReturn[];
  /** Minions that are known to be at it. */
  readonly running: ReadonlySet<string>;
  /** Whether somebody waits for the minions that have not returned. */
  readonly isFollowed: boolean;
  /** Minions that it was never sent to: the process that published it ended before. */
  readonly notSent?: ReadonlySet<string>;
}

/** The ledger: a line for each minion that the job was for, in the order of the record. */
export function describeDeliveries(
  record: Pick<JobRecord, 'minions' | 'missing' | 'publishedAt' | 'skipped'>,
  progress: JobProgress,
  facts: MinionFacts,
): Delivery[] {
  const returns = decisiveReturns(progress.returns);
  const missing = new Set(record.missing);
  return [...record.minions, ...record.missing].map((minion) => {
    const result = returns.get(minion);
    if (result !== undefined) {
      const state = isFailureCode(result.retcode) ? 'failed' : 'answered';
      return { minion, state, receivedAt: result.receivedAt };
    }
    if (progress.notSent?.has(minion)) return { minion, state: 'silent', reason: 'not-sent' };
    if (progress.running.has(minion)) return { minion, state: 'running' };
    const isWaitedFor = progress.isFollowed && !missing.has(minion);
    return isWaitedFor ? { minion, state: 'waiting' } : explainSilence(minion, record, facts);
  });
}

/** What counts of a return, without its value. */
function forLedger({ minion, resource, retcode, receivedAt }: JobReturn): LedgerReturn {
  return { minion, retcode, receivedAt, ...(resource === undefined ? {} : { resource }) };
}

/** A minion's own return, or one of its resources; one that failed counts before others. */
function decisiveReturns(returns: readonly LedgerReturn[]): Map<string, LedgerReturn> {
  const decisive = new Map<string, LedgerReturn>();
  for (const result of returns) {
    const isOwn = result.resource === undefined;
    const known = decisive.get(result.minion);
    const hasFailed = known !== undefined && isFailureCode(known.retcode);
    if (known === undefined || isFailureCode(result.retcode) || (isOwn && !hasFailed)) {
      decisive.set(result.minion, result);
    }
  }
  return decisive;
}

function explainSilence(
  minion: string,
  { publishedAt, skipped = 0 }: Pick<JobRecord, 'publishedAt' | 'skipped'>,
  { isAccepted, lastHeardAt, isReconnecting }: MinionFacts,
): Delivery {
  const heardAt = lastHeardAt(minion);
  const heard = heardAt === undefined ? {} : { lastHeardAt: heardAt };
  const silent = (reason: SilenceReason): Delivery => ({
    minion,
    state: 'silent',
    reason,
    ...heard,
  });
  if (!isAccepted(minion)) return silent('key-not-accepted');
  if (isReconnecting(minion, publishedAt)) return { minion, state: 'reconnecting', ...heard };
  if (heardAt !== undefined && heardAt >= publishedAt) return silent('no-return');
  if (skipped > 0) return silent('queue-full');
  return silent(heardAt === undefined ? 'never-heard' : 'not-heard-since');
}

/** More than any fleet has minions, each of which returns once. */
const maxWaitingNews = 1_000_000;

/** What befalls a job while it is followed. */
type JobNews =
  | { readonly type: 'return'; readonly result: JobReturn }
  /** There was no news for a while. */
  | { readonly type: 'quiet' }
  /** These of those that were asked said that they are at it. */
  | { readonly type: 'asked'; readonly asked: readonly string[]; readonly running: Set<string> }
  | { readonly type: 'failed'; readonly error: unknown };

interface FollowDeps {
  readonly dispatcher: Pick<JobDispatcher, 'closing' | 'publishUnkept'>;
  readonly facts: MinionFacts;
  /** `timeout` and `gather_job_timeout`. */
  readonly config: Pick<LiveConfig, 'current'>;
}

/** A job that was published. */
interface FollowedJob {
  readonly job: Job;
  readonly record: JobRecord;
  /** Its returns, from its publication on. */
  readonly news: BoundedQueue<JobNews>;
  /** Milliseconds without news after which the silent minions are asked for the first time. */
  readonly firstMs: number;
  /** The same, once they were asked. */
  readonly quietMs: number;
  /** Milliseconds that they have for that answer. */
  readonly gatherMs: number;
  /** Minions that it was never sent to. Default: none. */
  readonly notSent?: ReadonlySet<string>;
}

/** For the returns of a job, which come before it is followed. */
function createJobEventQueue(): BoundedQueue<JobNews> {
  return new BoundedQueue(maxWaitingNews, tooManyNews);
}

/** What it tells after `published`; it ends too when the signal or the closing master says so. */
async function* followJob(
  { dispatcher, facts }: FollowDeps,
  { job, record, news, firstMs, quietMs, gatherMs, notSent = new Set() }: FollowedJob,
  signal?: AbortSignal,
): AsyncGenerator<JobUpdate, void, void> {
  const { jid } = record;
  const waiting = new Awaited(
    record.minions.filter((id) => !notSent.has(id)),
    job,
  );
  const returns: LedgerReturn[] = [];
  const unanswered: string[] = [...notSent];
  let idleTimeoutMs = firstMs;
  const quiet = new QuietTimer(() => news.push({ type: 'quiet' }));
  const end = new AbortController();
  const abort = (): void => {
    end.abort();
    news.close();
  };
  const reasons = signal === undefined ? [dispatcher.closing] : [dispatcher.closing, signal];
  for (const reason of reasons) reason.addEventListener('abort', abort, { once: true });
  if (reasons.some((reason) => reason.aborted)) abort();
  // Beside the returns, which go on meanwhile.
  const ask = (asked: readonly string[]): void => {
    findRunning(dispatcher, jid, asked, gatherMs, end.signal).then(
      (running) => news.push({ type: 'asked', asked, running }),
      (error: unknown) => news.push({ type: 'failed', error }),
    );
  };
  let isAsking = false;
  try {
    quiet.restart(idleTimeoutMs);
    while (waiting.size > 0) {
      const next = await news.next();
      if (next.done || end.signal.aborted) break;
      switch (next.value.type) {
        case 'return': {
          const { result } = next.value;
          waiting.note(result);
          returns.push(forLedger(result));
          yield { type: 'return', jid, ...result };
          if (!isAsking) quiet.restart(idleTimeoutMs);
          break;
        }
        case 'quiet':
          isAsking = true;
          ask(waiting.minions);
          break;
        case 'asked': {
          const { asked, running } = next.value;
          isAsking = false;
          idleTimeoutMs = quietMs;
          job.noteRunning(asked, running);
          for (const minion of asked) {
            if (running.has(minion) || job.isOver(minion)) continue;
            if (waiting.giveUp(minion)) unanswered.push(minion);
          }
          if (running.size > 0) yield { type: 'running', jid, minions: [...running] };
          quiet.restart(idleTimeoutMs);
          break;
        }
        case 'failed':
          throw next.value.error;
      }
    }
    const isAway = (minion: string): boolean => facts.isReconnecting(minion, record.publishedAt);
    const left = [...unanswered, ...waiting.minions].filter((id) => !job.hasResourceAnswer(id));
    const progress = { returns, running: job.running, isFollowed: false, notSent };
    yield {
      type: 'finished',
      jid,
      answered: [...new Set(returns.map(({ minion }) => minion))],
      silent: left.filter((minion) => !isAway(minion)),
      reconnecting: left.filter(isAway),
      deliveries: describeDeliveries(record, progress, facts),
    };
  } finally {
    end.abort();
    quiet.stop();
    for (const reason of reasons) reason.removeEventListener('abort', abort);
  }
}

function tooManyNews(): Error {
  return new MasterError('ERR_JOB_LIMIT', 'the reader of this job does not read its returns');
}

/** Who has not returned yet: for itself, or for each resource that the job is for. */
class Awaited {
  /** With the resources that are left, where it returns for those. */
  readonly #left: Map<string, Set<string> | undefined>;

  constructor(minions: readonly string[], job: Job) {
    this.#left = new Map(
      minions.map((id) => {
        const expected = job.expectedOf(id);
        return [id, expected && new Set(expected)];
      }),
    );
  }

  get size(): number {
    return this.#left.size;
  }

  get minions(): string[] {
    return [...this.#left.keys()];
  }

  note({ minion, resource }: JobReturn): void {
    if (resource === undefined) {
      this.#left.delete(minion);
      return;
    }
    const resources = this.#left.get(minion);
    resources?.delete(resource);
    if (resources?.size === 0) this.#left.delete(minion);
  }

  /** No longer waits for it. @returns whether it was waited for */
  giveUp(minion: string): boolean {
    return this.#left.delete(minion);
  }
}

/** Fires once after a time in which it was not restarted. */
class QuietTimer {
  readonly #onQuiet: () => void;
  #timer: NodeJS.Timeout | undefined;

  constructor(onQuiet: () => void) {
    this.#onQuiet = onQuiet;
  }

  restart(milliseconds: number): void {
    this.stop();
    this.#timer = setTimeout(this.#onQuiet, milliseconds);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}

// Jobs of an earlier master process, from what is stored.

export interface ResumeDeps extends FollowDeps {
  readonly cache: Pick<JobCache, 'find' | 'notSentTo' | 'record' | 'returns'>;
}

/**
 * Milliseconds that minions have to come back before they are asked: they look for a master that
 * was away every ten seconds at least (`recon_max`), and return meanwhile what they did.
 */
const reconnectMs = 30_000;

/**
 * Follows a job that was published before, as if it had been followed all the time: what came back
 * meanwhile comes first.
 * @throws MasterError ERR_JOB_UNKNOWN when none of this jid is kept
 */
export async function* resumeJob(
  parts: ResumeDeps,
  jid: string,
  signal?: AbortSignal,
): AsyncGenerator<JobUpdate, void, void> {
  const { cache, config } = parts;
  const [job, record] = [await cache.find(jid), await cache.record(jid)];
  if (job === undefined || record === undefined) {
    throw new MasterError('ERR_JOB_UNKNOWN', 'no job of this jid is kept');
  }
  const news = createJobEventQueue();
  const heard = new Set<string>();
  const note = (result: JobReturn): void => {
    const name = [result.minion, result.resource].join('/');
    if (heard.has(name)) return;
    heard.add(name);
    news.push({ type: 'return', result });
  };
  // Before what is kept is read, so that nothing falls between.
  const stopListening = job.onReturn(note);
  try {
    const { minions, missing, skipped = 0 } = record;
    const notSent = cache.notSentTo(record);
    const left = notSent.size === 0 ? {} : { notSent: [...notSent] };
    yield { type: 'published', jid, minions, missing, skipped, ...left };
    for await (const result of cache.returns(jid)) {
      job.answer(result);
      note(result);
    }
    const { timeout, gatherJobTimeout } = config.current;
    const quietMs = timeout * 1000;
    const patience = { firstMs: Math.max(reconnectMs, quietMs), quietMs };
    const gatherMs = gatherJobTimeout * 1000;
    yield* followJob(parts, { job, record, news, ...patience, gatherMs, notSent }, signal);
  } finally {
    stopListening();
  }
}

// Runs jobs on all, some or so many minions at a time [salt cli/batch.py].

// Slots of a batch.

/** Who is at it, who has yet to be, and how many more may. */
class BatchSlots {
  readonly #left: string[];
  readonly #active = new Set<string>();
  #free: number;

  constructor(minions: readonly string[], count: number) {
    this.#left = [...minions];
    this.#free = count;
  }

  /** Minions that nothing was sent to. */
  get left(): readonly string[] {
    return this.#left;
  }

  /** As many minions as there are free places, which are theirs from now on. */
  take(): string[] {
    const next = this.#left.splice(0, this.#free);
    this.#free -= next.length;
    for (const minion of next) this.#active.add(minion);
    return next;
  }

  /** These minions are done. @returns how many places they had */
  leave(minions: readonly string[]): number {
    return minions.filter((minion) => this.#active.delete(minion)).length;
  }

  /** Slots may be taken again. */
  free(count: number): void {
    this.#free += count;
  }
}

/** Calls back after a time; gives the function that calls it off. */
export type StartTimer = (milliseconds: number, onEnd: () => void) => () => void;

/** Node's timers. */
const startTimer: StartTimer = (milliseconds, onEnd) => {
  const timer = setTimeout(onEnd, milliseconds);
  return () => clearTimeout(timer);
};

/** Keeps places empty for a while after their minions are done (`--batch-wait`). */
class BatchWait {
  readonly #waitMs: number;
  readonly #onEnd: (count: number) => void;
  readonly #start: StartTimer;
  readonly #stops = new Set<() => void>();

  constructor(waitMs: number, onEnd: (count: number) => void, start: StartTimer) {
    this.#waitMs = waitMs;
    this.#onEnd = onEnd;
    this.#start = start;
  }

  add(count: number): void {
    if (count === 0) return;
    if (this.#waitMs === 0) {
      this.#onEnd(count);
      return;
    }
    const stop = this.#start(this.#waitMs, () => {
      this.#stops.delete(stop);
      this.#onEnd(count);
    });
    this.#stops.add(stop);
  }

  stop(): void {
    for (const stop of this.#stops) stop();
  }
}

/** Publishes one job and follows it. */
type Run = (request: RunRequest, signal?: AbortSignal) => AsyncIterable<JobUpdate>;

const percentage = /^\d{1,3}(\.\d+)?%$/;
const count = /^[1-9]\d{0,8}$/;

/**
 * Pings the target, then runs the job on those that answer, `size` at a time: whenever minions
 * are done, the next ones get it too, under the jid of the request as in Salt 3008.
 * @param start for tests that do not wait
 * @throws MasterError ERR_BAD_TGT, ERR_ARGS
 */
export async function* runBatch(
  run: Run,
  request: BatchRequest,
  signal?: AbortSignal,
  start: StartTimer = startTimer,
): AsyncGenerator<BatchUpdate, void, void> {
  const { size, waitSeconds = 0, failHard = false, ...target } = request;
  checkSize(size);
  const gathered = await gather(run, target, signal);
  yield gathered;
  const { delimiter: _delimiter, ...job } = target;
  const { minions } = gathered;
  const places = new BatchSlots(minions, placesOf(size, minions.length));
  const end = new AbortController();
  const jobs = new ParallelJobs((ids) => {
    const stop = signal === undefined ? end.signal : AbortSignal.any([end.signal, signal]);
    return run({ ...job, tgt: ids, tgtType: 'list' }, stop);
  });
  const makeRoom = (count: number): void => {
    places.free(count);
    jobs.wake();
  };
  const coolings = new BatchWait(waitSeconds * 1000, makeRoom, start);
  try {
    jobs.start(places.take());
    while (jobs.isBusy || places.left.length > 0) {
      const event = await jobs.next();
      if (event.type === 'ended') coolings.add(places.leave(event.minions));
      else if (event.type === 'update') {
        const { update } = event;
        yield update;
        if (update.type === 'return') {
          if (failHard && isFailureCode(update.retcode)) {
            return yield { type: 'ended', failed: update.minion, left: places.left };
          }
          if (update.resource === undefined) coolings.add(places.leave([update.minion]));
        }
      }
      if (signal?.aborted !== true) jobs.start(places.take());
      else if (!jobs.isBusy) break;
    }
    yield { type: 'ended', left: places.left };
  } finally {
    end.abort();
    coolings.stop();
  }
}

function checkSize(size: number | string): void {
  if (typeof size === 'string' ? percentage.test(size) || count.test(size) : size >= 1) return;
  throw new MasterError('ERR_ARGS', 'size is not a number of minions, or a part such as 25%');
}

/** [salt cli/batch.py get_bnum] */
function placesOf(size: number | string, minions: number): number {
  if (typeof size === 'number') return Math.floor(size);
  if (!size.endsWith('%')) return Number(size);
  return Math.max(1, Math.floor((Number(size.slice(0, -1)) / 100) * minions));
}

/** Who answers a ping. The order is that of the ids: it does not depend on who is fastest. */
async function gather(
  run: Run,
  { fun: _fun, arg: _arg, kwarg: _kwarg, jid: _jid, ret: _ret, ...job }: RunRequest,
  signal?: AbortSignal,
): Promise<Extract<BatchUpdate, { type: 'gathered' }>> {
  const minions: string[] = [];
  const silent: string[] = [];
  for await (const update of run({ ...job, fun: 'test.ping' }, signal)) {
    if (update.type === 'return') minions.push(update.minion);
    if (update.type === 'finished') silent.push(...update.silent, ...update.reconnecting);
  }
  return { type: 'gathered', minions: minions.sort(), silent };
}

/** Publishes one job and follows it. */
type RunOnce = (request: RunRequest) => AsyncIterable<JobUpdate>;

/**
 * Asks the target which functions it has, chooses among those that have this one, and runs the
 * job there [salt client/__init__.py cmd_subset]. Only the job itself is told.
 * @param random a whole number from 0 on, below its argument
 * @throws MasterError ERR_BAD_TGT, ERR_ARGS
 */
async function* runSubset(
  run: RunOnce,
  { subset = 1, ...request }: RunRequest,
  random: (below: number) => number,
): AsyncGenerator<JobUpdate, void, void> {
  if (!Number.isSafeInteger(subset) || subset < 1) {
    throw new MasterError('ERR_ARGS', 'subset is not a number of minions from 1 on');
  }
  const { fun, arg: _arg, kwarg: _kwarg, jid: _jid, ...question } = request;
  const having: string[] = [];
  for await (const update of run({ ...question, fun: 'sys.list_functions' })) {
    if (update.type !== 'return' || !Array.isArray(update.return)) continue;
    const functions = new Set(update.return);
    if ([fun].flat().every((name) => functions.has(name))) having.push(update.minion);
  }
  const { delimiter: _delimiter, ...job } = request;
  yield* run({ ...job, tgt: choose(having, subset, random), tgtType: 'list' });
}

function choose(
  ids: readonly string[],
  count: number,
  random: (below: number) => number,
): string[] {
  const left = [...ids];
  const chosen: string[] = [];
  while (chosen.length < count && left.length > 0) {
    chosen.push(...left.splice(random(left.length), 1));
  }
  return chosen;
}

export interface RunDeps extends FollowDeps {
  readonly dispatcher: JobDispatcher;
}

/**
 * Publishes a job and follows it to its end, as Salt's LocalClient does [WIRE 15.5]: after
 * `timeoutSeconds` without news it asks the silent minions with `saltutil.find_job`; those that still
 * run it are waited for, the others are not.
 * @throws MasterError ERR_BAD_TGT, ERR_ARGS
 */
export async function* runJob(
  parts: RunDeps,
  request: RunRequest,
  signal?: AbortSignal,
): AsyncGenerator<JobUpdate, void, void> {
  const { current } = parts.config;
  const { timeoutSeconds = current.timeout, gatherJobTimeoutSeconds = current.gatherJobTimeout } =
    request;
  const news = createJobEventQueue();
  const { job, record, delivery, problem, stopListening } = await parts.dispatcher.publish(
    request,
    (result) => news.push({ type: 'return', result }),
  );
  try {
    const { jid, minions, missing } = record;
    const broken = problem === undefined ? {} : { problem };
    yield { type: 'published', jid, minions, missing, skipped: delivery.skipped, ...broken };
    const patience = { firstMs: timeoutSeconds * 1000, quietMs: timeoutSeconds * 1000 };
    const gatherMs = gatherJobTimeoutSeconds * 1000;
    yield* followJob(parts, { job, record, news, ...patience, gatherMs }, signal);
  } finally {
    stopListening();
  }
}

/** Publishes and follows to the end; with `subset`, on some of the minions that have the function. */
export function createRun(parts: RunDeps): InProcessJobsApi['run'] {
  return (request, signal) =>
    request.subset === undefined
      ? runJob(parts, request, signal)
      : runSubset((one) => runJob(parts, one, signal), request, randomInt);
}
