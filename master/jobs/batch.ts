/** Runs jobs on minions in batches, or on a random subset [salt cli/batch.py]. */

import {
  type BatchRequest,
  type BatchUpdate,
  type JobOrigin,
  type JobUpdate,
  MasterError,
  type RunRequest,
} from '../api/index.ts';
import { isFailureCode } from './job-return.ts';
import { ParallelJobs } from './parallel-jobs.ts';

/** Calls back after a time; gives the function that calls it off. */
export type StartTimer = (milliseconds: number, onEnd: () => void) => () => void;

/** Node's timers. */
const startTimer: StartTimer = (milliseconds, onEnd) => {
  const timer = setTimeout(onEnd, milliseconds);
  return () => clearTimeout(timer);
};

/** Publishes one job and follows it. */
type Run = (request: RunRequest & JobOrigin, signal?: AbortSignal) => AsyncIterable<JobUpdate>;

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
  request: BatchRequest & JobOrigin,
  signal?: AbortSignal,
  start: StartTimer = startTimer,
): AsyncGenerator<BatchUpdate, void, void> {
  const { size, waitSeconds = 0, failHard = false, ...target } = request;
  const read = checkedSize(size);
  const gathered = await gather(run, target, signal);
  yield gathered;
  const { delimiter: _delimiter, leftOut, ...given } = target;
  const { minions } = gathered;
  // The names that are not addressed are among those that did not answer.
  const job = leftOut === undefined ? given : { ...given, leftOut: { ...leftOut, missing: [] } };
  const left = [...minions];
  const active = new Set<string>();
  let free = placesOf(read, minions.length);
  const end = new AbortController();
  const jobs = new ParallelJobs((ids) => {
    const stop = signal === undefined ? end.signal : AbortSignal.any([end.signal, signal]);
    return run({ ...job, tgt: ids, tgtType: 'list' }, stop);
  });
  /** As many minions as there are free places, which are theirs from now on. */
  const takeNext = (): string[] => {
    const next = left.splice(0, free);
    free -= next.length;
    for (const minion of next) active.add(minion);
    return next;
  };
  const stops = new Set<() => void>();
  /** These minions are done; their places stay empty for a while (`--batch-wait`). */
  const leave = (done: readonly string[]): void => {
    const count = done.filter((minion) => active.delete(minion)).length;
    const makeRoom = (): void => {
      free += count;
      jobs.wake();
    };
    if (count > 0 && waitSeconds === 0) makeRoom();
    if (count === 0 || waitSeconds === 0) return;
    const stop = start(waitSeconds * 1000, () => {
      stops.delete(stop);
      makeRoom();
    });
    stops.add(stop);
  };
  try {
    jobs.start(takeNext());
    while (jobs.isBusy || left.length > 0) {
      const event = await jobs.next();
      if (event.type === 'ended') leave(event.minions);
      else if (event.type === 'update') {
        const { update } = event;
        yield update;
        if (update.type === 'return') {
          if (failHard && isFailureCode(update.retcode)) {
            return yield { type: 'ended', failed: update.minion, left };
          }
          if (update.resource === undefined) leave([update.minion]);
        }
      }
      if (signal?.aborted !== true) jobs.start(takeNext());
      else if (!jobs.isBusy) break;
    }
    yield { type: 'ended', left };
  } finally {
    end.abort();
    for (const stop of stops) stop();
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
  { fun: _fun, arg: _arg, kwarg: _kwarg, jid: _jid, ret: _ret, ...job }: RunRequest & JobOrigin,
  signal?: AbortSignal,
): Promise<Extract<BatchUpdate, { type: 'gathered' }>> {
  const minions: string[] = [];
  const silent: string[] = [];
  let narrowed: { readonly isNarrowed?: true } = {};
  for await (const update of run({ ...job, fun: 'test.ping' }, signal)) {
    if (update.type === 'published' && update.isNarrowed) narrowed = { isNarrowed: true };
    if (update.type === 'return') minions.push(update.minion);
    if (update.type === 'finished') silent.push(...update.silent, ...update.reconnecting);
  }
  return { type: 'gathered', minions: minions.sort(), silent, ...narrowed };
}

/**
 * Asks the target which functions it has, chooses among those that have this one, and runs the
 * job there [salt client/__init__.py cmd_subset]. Only the job itself is told.
 * @param random a whole number from 0 on, below its argument
 * @throws MasterError ERR_BAD_TGT, ERR_ARGS
 */
export async function* runSubset(
  run: Run,
  { subset = 1, ...request }: RunRequest & JobOrigin,
  random: (below: number) => number,
): AsyncGenerator<JobUpdate, void, void> {
  if (!Number.isSafeInteger(subset) || subset < 1) {
    throw new MasterError('ERR_ARGS', 'subset is not a number of minions from 1 on');
  }
  const { fun, arg: _arg, kwarg: _kwarg, jid: _jid, ...question } = request;
  const having: string[] = [];
  let missing: readonly string[] = [];
  let isNarrowed = false;
  for await (const update of run({ ...question, fun: 'sys.list_functions' })) {
    if (update.type === 'published') {
      missing = update.missing;
      isNarrowed = update.isNarrowed === true;
    }
    if (update.type !== 'return' || !Array.isArray(update.return)) continue;
    const functions = new Set(update.return);
    if ([fun].flat().every((name) => functions.has(name))) having.push(update.minion);
  }
  const { delimiter: _delimiter, ...job } = request;
  const tgt = choose(having, subset, random);
  yield* run({ ...job, tgt, tgtType: 'list', leftOut: { missing, isNarrowed } });
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
