/** A job from its publication to its end. */
import { MasterError } from '../errors.ts';
import { BoundedQueue } from '../queue.ts';
import type { JobDispatcher } from './dispatcher.ts';
import { findRunning } from './find-running.ts';
import type { Job, JobRecord, JobReturn } from './job.ts';
import {
  type Delivery,
  describeDeliveries,
  forLedger,
  type LedgerReturn,
  type MinionFacts,
} from './ledger.ts';

/** What a running job tells, in this order: `published`, then the rest, `finished` last. */
export type JobUpdate =
  | {
      readonly type: 'published';
      readonly jid: string;
      readonly minions: readonly string[];
      readonly missing: readonly string[];
      /** Subscribers that were passed over because their queue was full. */
      readonly skipped: number;
      /** Why the target is broken, and therefore means nobody. */
      readonly problem?: string;
    }
  | ({ readonly type: 'return'; readonly jid: string } & JobReturn)
  /** These minions said that they are still at it. */
  | { readonly type: 'running'; readonly jid: string; readonly minions: readonly string[] }
  | {
      readonly type: 'finished';
      readonly jid: string;
      readonly answered: readonly string[];
      /** Minions that neither returned nor said that they are still at it. */
      readonly silent: readonly string[];
      /** Those that had not come back from a restart of the master in time for the job. */
      readonly reconnecting: readonly string[];
      /** A line for each targeted minion, those of `missing` last. */
      readonly deliveries: readonly Delivery[];
    };

/** Salt's defaults, seconds (`timeout`, `gather_job_timeout`). */
interface RunDefaults {
  readonly timeout: number;
  readonly gatherJobTimeout: number;
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

/** What {@link followJob} works with. */
export interface FollowParts {
  readonly dispatcher: Pick<JobDispatcher, 'closing' | 'publishUnkept'>;
  readonly facts: MinionFacts;
  readonly defaults: RunDefaults;
}

/** A job that was published. */
export interface FollowedJob {
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
}

/** For the returns of a job, which come before it is followed. */
export function createNews(): BoundedQueue<JobNews> {
  return new BoundedQueue(maxWaitingNews, tooManyNews);
}

/** What it tells after `published`; it ends too when the signal or the closing master says so. */
export async function* followJob(
  { dispatcher, facts }: FollowParts,
  { job, record, news, firstMs, quietMs, gatherMs }: FollowedJob,
  signal?: AbortSignal,
): AsyncGenerator<JobUpdate, void, void> {
  const { jid } = record;
  const waiting = new Awaited(record.minions, job);
  const returns: LedgerReturn[] = [];
  const unanswered: string[] = [];
  let patienceMs = firstMs;
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
    quiet.restart(patienceMs);
    while (waiting.size > 0) {
      const next = await news.next();
      if (next.done || end.signal.aborted) break;
      switch (next.value.type) {
        case 'return': {
          const { result } = next.value;
          waiting.note(result);
          returns.push(forLedger(result));
          yield { type: 'return', jid, ...result };
          if (!isAsking) quiet.restart(patienceMs);
          break;
        }
        case 'quiet':
          isAsking = true;
          ask(waiting.minions);
          break;
        case 'asked': {
          const { asked, running } = next.value;
          isAsking = false;
          patienceMs = quietMs;
          job.noteRunning(asked, running);
          for (const minion of asked) {
            if (running.has(minion) || job.isOver(minion)) continue;
            if (waiting.giveUp(minion)) unanswered.push(minion);
          }
          if (running.size > 0) yield { type: 'running', jid, minions: [...running] };
          quiet.restart(patienceMs);
          break;
        }
        case 'failed':
          throw next.value.error;
      }
    }
    const isAway = (minion: string): boolean => facts.isReconnecting(minion, record.publishedAt);
    const left = [...unanswered, ...waiting.minions].filter((id) => !job.hasResourceAnswer(id));
    const progress = { returns, running: job.running, isFollowed: false };
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
