/**
 * Follows a job to its end. It reports returns, minions that are still running the job, and a
 * summary.
 */

import type { LiveConfig } from '#config';
import type { WireValue } from '#minion-protocol';
import { BoundedQueue, longestTimerMs } from '#runtime';
import {
  type AuditRequester,
  type Delivery,
  type JobReturn,
  type JobUpdate,
  MasterError,
  type SilenceReason,
} from '../api/index.ts';
import type { JobDispatcher } from './dispatcher.ts';
import type { Job } from './job.ts';
import { isFailureCode } from './job-return.ts';
import type { JobRecord } from './job-row.ts';
import { jobLimits } from './limits.ts';

/**
 * Asks minions with `saltutil.find_job` whether they are running a job, and returns the minions
 * that answer yes. Waits until all minions have answered yes, or until the time is over. The answer
 * no is not final: the minion may just have sent its return, or may not have started the job yet
 * [salt/client/__init__.py get_iter_returns].
 * @param by - requester that follows the job
 */
export async function findRunning(
  dispatcher: Pick<JobDispatcher, 'publishUnstored'>,
  jid: string,
  minions: readonly string[],
  gatherMs: number,
  end: AbortSignal,
  by?: AuditRequester,
): Promise<Set<string>> {
  const running = new Set<string>();
  let finish = (): void => {};
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  end.addEventListener('abort', finish, { once: true });
  const note = (result: JobReturn): void => {
    if (isRunningJob(result.return)) running.add(result.minion);
    if (running.size === minions.length) finish();
  };
  let stopListening = (): void => {};
  let timer: NodeJS.Timeout | undefined;
  try {
    const question = { tgt: minions, fun: 'saltutil.find_job', arg: [jid], by };
    stopListening = await dispatcher.publishUnstored(question, note);
    // The question may have waited for its turn, so the time starts only now.
    timer = setTimeout(finish, gatherMs);
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

/** Facts about minions that other modules of the master supply. */
export interface MinionFacts {
  readonly isAccepted: (minionId: string) => boolean;
  /**
   * Returns the time of the minion's last request in milliseconds since 1970. `undefined` if there
   * was none since the start of the master.
   */
  readonly lastHeardAt: (minionId: string) => number | undefined;
  /**
   * Returns whether the minion could not receive a job that was published at this time, because the
   * master restarted. Either the minion has not reconnected yet, or it reconnected after the master
   * had discarded the publication. Always false from two minutes after the start of the master.
   * @param publishedAt - time in milliseconds since 1970
   */
  readonly isReconnecting: (minionId: string, publishedAt: number) => boolean;
}

/** Fields of a return from which the state of its minion in the job is determined. */
type LedgerReturn = Pick<JobReturn, 'minion' | 'resource' | 'retcode' | 'receivedAt'>;

/** Progress of a job: the returns that have arrived, and the minions that still run the job. */
export interface JobProgress {
  readonly returns: readonly LedgerReturn[];
  /** Minions that confirmed that the job runs. */
  readonly running: ReadonlySet<string>;
  /** Whether a caller is waiting for the minions that have not returned. */
  readonly isFollowed: boolean;
  /** Minions that never received the job because the publishing process ended. */
  readonly notSent?: ReadonlySet<string>;
}

/**
 * Returns the state of each minion of a job, in the order in which the job's record lists the
 * minions.
 */
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

/**
 * Returns a copy of a minion's return without the returned value. The copy contains only the fields
 * that determine the state of the minion.
 */
function forLedger({ minion, resource, retcode, receivedAt }: JobReturn): LedgerReturn {
  return { minion, retcode, receivedAt, ...(resource === undefined ? {} : { resource }) };
}

/**
 * Selects for each minion the return that determines its state. The minion's own return takes
 * precedence over the returns of its resources, and a failure takes precedence over a success. The
 * keys of the map are minion ids.
 */
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

/** Event of a followed job. */
type JobNews =
  | { readonly type: 'return'; readonly result: JobReturn }
  /** No event has arrived for some time. */
  | { readonly type: 'quiet' }
  /**
   * Result of asking minions whether they still run the job. `running` contains the minions that
   * do.
   */
  | { readonly type: 'asked'; readonly asked: readonly string[]; readonly running: Set<string> }
  | { readonly type: 'failed'; readonly error: unknown };

export interface FollowDeps {
  readonly dispatcher: Pick<JobDispatcher, 'closing' | 'publishUnstored'>;
  readonly facts: MinionFacts;
  /** Configuration. Only `timeout` and `gather_job_timeout` are used. */
  readonly config: Pick<LiveConfig, 'current'>;
}

/**
 * Minimum time between two questions whether a job still runs, in milliseconds. Users choose the
 * timeouts of their jobs, and each question is published to all minions that have not returned.
 */
const leastQuietMs = 1000;

/** Times between the questions whether a job still runs. */
type QuestionTimes = Pick<FollowedJob, 'firstMs' | 'gatherMs' | 'quietMs'>;

/**
 * Returns the times that are used instead of the requested ones. The first question may follow at
 * once, but repeated questions have a minimum distance. Node.js would end longer times than
 * {@link longestTimerMs} immediately.
 */
export function questionTimes({ firstMs, quietMs, gatherMs }: QuestionTimes): QuestionTimes {
  return {
    firstMs: Math.min(firstMs, longestTimerMs),
    quietMs: Math.min(Math.max(quietMs, leastQuietMs), longestTimerMs),
    gatherMs: Math.min(gatherMs, longestTimerMs),
  };
}

/** Published job, and the parameters for following it. */
interface FollowedJob {
  readonly job: Job;
  readonly record: JobRecord;
  /** Events of the job since its publication. */
  readonly news: BoundedQueue<JobNews>;
  /**
   * Time without events after which silent minions are first asked whether they still run the job,
   * in milliseconds.
   */
  readonly firstMs: number;
  /** Time without events after which silent minions are asked again, in milliseconds. */
  readonly quietMs: number;
  /**
   * Time that minions have to answer the question whether they still run the job, in milliseconds.
   */
  readonly gatherMs: number;
  /**
   * Time during which silent minions are asked repeatedly before the master stops waiting, in
   * milliseconds.
   */
  readonly patienceMs: number;
  /** Minions that never received the job. Default: none. */
  readonly notSent?: ReadonlySet<string>;
  /** Requester that follows the job. Default: the operator. */
  readonly by?: AuditRequester | undefined;
}

/**
 * Creates the queue for the returns of a job. Returns may arrive before the caller begins to follow
 * the job.
 */
export function createJobEventQueue(): BoundedQueue<JobNews> {
  return new BoundedQueue(jobLimits.jobNews, tooManyNews);
}

/**
 * Yields the updates of a published job: its returns, the minions that still run it, and a final
 * summary. If the signal is aborted or the master closes, it yields the summary at once.
 */
export async function* followJob(
  { dispatcher, facts }: FollowDeps,
  followed: FollowedJob,
  signal?: AbortSignal,
): AsyncGenerator<JobUpdate, void, void> {
  const { job, record, news, patienceMs, by } = followed;
  const { firstMs, quietMs, gatherMs } = questionTimes(followed);
  const { notSent = new Set() } = followed;
  const { jid } = record;
  const waiting = new Awaited(
    record.minions.filter((id) => !notSent.has(id)),
    job,
  );
  const returns: LedgerReturn[] = [];
  const unanswered: string[] = [...notSent];
  let idleTimeoutMs = firstMs;
  const patientUntil = performance.now() + patienceMs;
  let timer: NodeJS.Timeout | undefined;
  const restartTimer = (): void => {
    clearTimeout(timer);
    timer = setTimeout(() => news.push({ type: 'quiet' }), idleTimeoutMs);
  };
  const end = new AbortController();
  const abort = (): void => {
    end.abort();
    news.close();
  };
  const reasons = signal === undefined ? [dispatcher.closing] : [dispatcher.closing, signal];
  for (const reason of reasons) reason.addEventListener('abort', abort, { once: true });
  if (reasons.some((reason) => reason.aborted)) abort();
  // The minions are asked in the background, while returns continue to be processed.
  const ask = (asked: readonly string[]): void => {
    findRunning(dispatcher, jid, asked, gatherMs, end.signal, by).then(
      (running) => news.push({ type: 'asked', asked, running }),
      (error: unknown) => news.push({ type: 'failed', error }),
    );
  };
  let isAsking = false;
  try {
    restartTimer();
    while (waiting.size > 0) {
      const next = await news.next();
      if (next.done || end.signal.aborted) break;
      switch (next.value.type) {
        case 'return': {
          const { result } = next.value;
          waiting.note(result);
          returns.push(forLedger(result));
          yield { type: 'return', jid, ...result };
          if (!isAsking) restartTimer();
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
          for (const minion of performance.now() < patientUntil ? [] : asked) {
            if (running.has(minion) || job.isOver(minion)) continue;
            if (waiting.giveUp(minion)) unanswered.push(minion);
          }
          if (running.size > 0) yield { type: 'running', jid, minions: [...running] };
          restartTimer();
          break;
        }
        case 'failed':
          throw next.value.error;
      }
    }
    const isAway = (minion: string): boolean => facts.isReconnecting(minion, record.publishedAt);
    const left = [...unanswered, ...waiting.minions].filter((id) => !job.hasResourceAnswer(id));
    const namedInVain = record.minions.length === 0 ? [] : record.missing;
    const progress = { returns, running: job.running, isFollowed: false, notSent };
    yield {
      type: 'finished',
      jid,
      answered: [...new Set(returns.map(({ minion }) => minion))],
      silent: [...left.filter((minion) => !isAway(minion)), ...namedInVain],
      reconnecting: left.filter(isAway),
      deliveries: describeDeliveries(record, progress, facts),
    };
  } finally {
    end.abort();
    clearTimeout(timer);
    for (const reason of reasons) reason.removeEventListener('abort', abort);
  }
}

function tooManyNews(): Error {
  return new MasterError(
    'ERR_JOB_LIMIT',
    'too many unread returns: the caller of this job does not read them',
  );
}

/**
 * Minions of a job that have not returned yet. Some minions send a separate return for each of
 * their resources, and none for the minion itself.
 */
class Awaited {
  /**
   * Minions that have not returned yet. If a minion returns once for each of its resources, the
   * value is the set of resources that have not returned. For other minions, it is `undefined`.
   */
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

  /**
   * Stops waiting for a minion.
   * @returns whether the job was waiting for it
   */
  giveUp(minion: string): boolean {
    return this.#left.delete(minion);
  }
}
