/** Runs jobs on minions in batches, or on a random subset [salt cli/batch.py]. */

import {
  type BatchRequest,
  type BatchUpdate,
  type JobUpdate,
  MasterError,
  type RunRequest,
} from '../api/index.ts';
import { isFailureCode } from './job-return.ts';
import { ParallelJobs } from './parallel-jobs.ts';

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

/**
 * Reads the size of a batch: a number of minions, or a share of them with a percent sign before or
 * behind it. Python, which Salt reads it with, takes blanks around a number and underscores in it
 * [salt cli/batch.py get_bnum].
 * @returns the number, or the share as `25%`; `undefined` if the text is neither
 */
export function readBatchSize(text: string): number | `${number}%` | undefined {
  const number = Number(pythonNumber(text.replace(/^%+|%+$/g, '')));
  if (text.includes('%')) return number >= 0 && number < 1000 ? `${number}%` : undefined;
  return Number.isSafeInteger(number) && number > 0 && number < 1e9 ? number : undefined;
}

function pythonNumber(text: string): string | undefined {
  const [, digits] = /^\s*\+?(\d+(?:_\d+)*(?:\.\d+)?)\s*$/.exec(text) ?? [];
  return digits?.replaceAll('_', '');
}

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
  const read = checkedSize(size);
  const gathered = await gather(run, target, signal);
  yield gathered;
  const { delimiter: _delimiter, ...job } = target;
  const { minions } = gathered;
  const places = new BatchSlots(minions, placesOf(read, minions.length));
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

function checkedSize(size: number | string): number | string {
  const read = typeof size === 'string' ? readBatchSize(size) : size;
  if (read !== undefined && (typeof read === 'string' || read >= 1)) return read;
  throw new MasterError('ERR_ARGS', 'size is not a number of minions, or a part such as 25%');
}

/** [salt cli/batch.py get_bnum] */
function placesOf(size: number | string, minions: number): number {
  if (typeof size === 'number') return Math.floor(size);
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
export async function* runSubset(
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
