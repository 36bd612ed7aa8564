import { MasterError } from '../errors.ts';
import { BoundedQueue } from '../queue.ts';
import type { JobDispatcher, PublishRequest } from './dispatcher.ts';
import { findRunning } from './find-running.ts';
import type { JobReturn } from './job.ts';
import { type Delivery, describeDeliveries, type MinionFacts } from './ledger.ts';

/** A job with the patience of whoever waits for it. */
export interface RunRequest extends PublishRequest {
  /** Seconds without news after which the silent minions are asked whether they still run it. */
  readonly timeout?: number;
  /** Seconds that they have for that answer. */
  readonly gatherJobTimeout?: number;
  /** Run on so many minions only, chosen at random among those that have the function. */
  readonly subset?: number;
}

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
      /** A line for each targeted minion, those of `missing` last. */
      readonly deliveries: readonly Delivery[];
    };

/** Salt's defaults, seconds (`timeout`, `gather_job_timeout`). */
interface RunDefaults {
  readonly timeout: number;
  readonly gatherJobTimeout: number;
}

/** What {@link runJob} works with. */
export interface RunParts {
  readonly dispatcher: JobDispatcher;
  readonly facts: MinionFacts;
  readonly defaults: RunDefaults;
}

/** More than any fleet has minions, each of which returns once. */
const maxWaitingSignals = 1_000_000;

type Signal =
  | { readonly type: 'return'; readonly result: JobReturn }
  /** There was no news for a while. */
  | { readonly type: 'quiet' }
  /** These of those that were asked said that they are at it. */
  | { readonly type: 'asked'; readonly asked: readonly string[]; readonly running: Set<string> }
  | { readonly type: 'failed'; readonly error: unknown };

/**
 * Publishes a job and follows it to its end, as Salt's LocalClient does [WIRE 15.5]: after
 * `timeout` without news it asks the silent minions with `saltutil.find_job`; those that still
 * run it are waited for, the others are not.
 * @throws MasterError ERR_BAD_TGT, ERR_ARGS
 */
export async function* runJob(
  { dispatcher, facts, defaults }: RunParts,
  request: RunRequest,
  signal?: AbortSignal,
): AsyncGenerator<JobUpdate, void, void> {
  const timeoutMs = (request.timeout ?? defaults.timeout) * 1000;
  const gatherMs = (request.gatherJobTimeout ?? defaults.gatherJobTimeout) * 1000;
  const signals = new BoundedQueue<Signal>(maxWaitingSignals, tooManySignals);
  const { job, record, delivery, problem, stopListening } = await dispatcher.publish(
    request,
    (result) => signals.push({ type: 'return', result }),
  );
  const { jid, minions, missing } = record;
  const waiting = new Set(minions);
  const returns: Pick<JobReturn, 'minion' | 'retcode' | 'receivedAt'>[] = [];
  const silent: string[] = [];
  const quiet = new QuietTimer(() => signals.push({ type: 'quiet' }));
  const end = new AbortController();
  const abort = (): void => {
    end.abort();
    signals.close();
  };
  const reasons = signal === undefined ? [dispatcher.closing] : [dispatcher.closing, signal];
  for (const reason of reasons) reason.addEventListener('abort', abort, { once: true });
  if (reasons.some((reason) => reason.aborted)) abort();
  // Beside the returns, which go on meanwhile.
  const ask = (asked: readonly string[]): void => {
    findRunning(dispatcher, jid, asked, gatherMs, end.signal).then(
      (running) => signals.push({ type: 'asked', asked, running }),
      (error: unknown) => signals.push({ type: 'failed', error }),
    );
  };
  let isAsking = false;
  try {
    const { skipped } = delivery;
    const broken = problem === undefined ? {} : { problem };
    yield { type: 'published', jid, minions, missing, skipped, ...broken };
    quiet.restart(timeoutMs);
    while (waiting.size > 0) {
      const next = await signals.next();
      if (next.done || end.signal.aborted) break;
      switch (next.value.type) {
        case 'return': {
          const { minion, retcode, receivedAt } = next.value.result;
          waiting.delete(minion);
          returns.push({ minion, retcode, receivedAt });
          yield { type: 'return', jid, ...next.value.result };
          if (!isAsking) quiet.restart(timeoutMs);
          break;
        }
        case 'quiet':
          isAsking = true;
          ask([...waiting]);
          break;
        case 'asked': {
          const { asked, running } = next.value;
          isAsking = false;
          job.noteRunning(running);
          for (const minion of asked) {
            if (running.has(minion) || job.hasAnswered(minion)) continue;
            if (waiting.delete(minion)) silent.push(minion);
          }
          if (running.size > 0) yield { type: 'running', jid, minions: [...running] };
          quiet.restart(timeoutMs);
          break;
        }
        case 'failed':
          throw next.value.error;
      }
    }
    const progress = { returns, running: job.running, isFollowed: false };
    yield {
      type: 'finished',
      jid,
      answered: returns.map(({ minion }) => minion),
      silent: [...silent, ...waiting],
      deliveries: describeDeliveries(record, progress, facts),
    };
  } finally {
    end.abort();
    quiet.stop();
    stopListening();
    for (const reason of reasons) reason.removeEventListener('abort', abort);
  }
}

function tooManySignals(): Error {
  return new MasterError('ERR_JOB_LIMIT', 'the reader of this job does not read its returns');
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
