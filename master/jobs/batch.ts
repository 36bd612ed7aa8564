import { longestTimerMs, trimEnd } from '#runtime';
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

/**
 * Function that starts a timer, and returns a function that cancels it. `onEnd` is called when the
 * time is over.
 */
export type StartTimer = (milliseconds: number, onEnd: () => void) => () => void;

/** Default timer function, based on `setTimeout` of Node.js. */
const startTimer: StartTimer = (milliseconds, onEnd) => {
  const timer = setTimeout(onEnd, milliseconds);
  return () => clearTimeout(timer);
};

/** Function that publishes one job and follows it. */
type Run = (request: RunRequest & JobOrigin, signal?: AbortSignal) => AsyncIterable<JobUpdate>;

/**
 * Parses the size of a batch: a number of minions, or a percentage with the percent sign before or
 * after the number. It accepts surrounding blanks and underscores in the number, as Python does in
 * Salt [salt cli/batch.py get_bnum]. Takes linear time, because any user can choose the text.
 * @returns the number, or the percentage in the form `25%`. `undefined` if the text is neither
 */
export function readBatchSize(text: string): number | `${number}%` | undefined {
  const number = Number(pythonNumber(trimEnd(text.replace(/^%+/, ''), '%')));
  if (text.includes('%')) return number >= 0 && number < 1000 ? `${number}%` : undefined;
  return Number.isSafeInteger(number) && number > 0 && number < 1e9 ? number : undefined;
}

function pythonNumber(text: string): string | undefined {
  const [, digits] = /^\s*\+?(\d+(?:_\d+)*(?:\.\d+)?)\s*$/.exec(text) ?? [];
  return digits?.replaceAll('_', '');
}

/**
 * Pings the target, then runs the job on the minions that respond, at most `size` at a time. When a
 * minion is done, the job is sent to the next minion under the same jid, as in Salt 3008.
 * @param start - timer function, for tests
 * @throws MasterError ERR_BAD_TGT, ERR_ARGS; AuthorizationError if the user has lost the right
 */
export async function* runBatch(
  run: Run,
  request: BatchRequest & JobOrigin,
  signal?: AbortSignal,
  start: StartTimer = startTimer,
): AsyncGenerator<BatchUpdate, void, void> {
  const { size, waitSeconds = 0, failHard = false, judgePart, ...target } = request;
  const read = checkedSize(size);
  const gathered = await gather(run, target, signal);
  yield gathered;
  const { delimiter: _delimiter, leftOut, ...given } = target;
  const { minions } = gathered;
  // `missing` is emptied, because these minions are already reported as not responding.
  const job = leftOut === undefined ? given : { ...given, leftOut: { ...leftOut, missing: [] } };
  const left = [...minions];
  const active = new Set<string>();
  let free = placesOf(read, minions.length);
  const end = new AbortController();
  const jobs = new ParallelJobs(async function* (ids) {
    const stop = signal === undefined ? end.signal : AbortSignal.any([end.signal, signal]);
    const part = { ...job, tgt: ids, tgtType: 'list' } as const;
    yield* run(judgePart === undefined ? part : await judgePart(part), stop);
  });
  /**
   * Removes the next minions from `left`, at most one for each free slot, and assigns the slots to
   * them.
   */
  const takeNext = (): string[] => {
    const next = left.splice(0, free);
    free -= next.length;
    for (const minion of next) active.add(minion);
    return next;
  };
  const stops = new Set<() => void>();
  /** Releases the slots of minions that have finished the job, after a delay of `waitSeconds`. */
  const leave = (done: readonly string[]): void => {
    const count = done.filter((minion) => active.delete(minion)).length;
    const makeRoom = (): void => {
      free += count;
      jobs.wake();
    };
    if (count > 0 && waitSeconds === 0) makeRoom();
    if (count === 0 || waitSeconds === 0) return;
    // Node.js would end longer timers immediately.
    const stop = start(Math.min(waitSeconds * 1000, longestTimerMs), () => {
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
  throw new MasterError(
    'ERR_ARGS',
    'the batch size must be a number of minions or a percentage such as 25%',
  );
}

/**
 * Returns the maximum number of minions that run the job at a time [salt cli/batch.py get_bnum].
 */
function placesOf(size: number | string, minions: number): number {
  if (typeof size === 'number') return Math.floor(size);
  return Math.max(1, Math.floor((Number(size.slice(0, -1)) / 100) * minions));
}

/**
 * Pings the target, and returns the minions that respond and the silent ones. The responding
 * minions are sorted by id, so that their order does not depend on their speed.
 */
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
 * Runs a job on at most `subset` minions (default: 1) [salt client/__init__.py cmd_subset]. Asks
 * the targeted minions for their functions, and selects at random from those that have the
 * requested function. Yields only the updates of the requested job.
 * @param random - returns a random integer from 0 up to its argument, exclusive
 * @throws MasterError ERR_BAD_TGT, ERR_ARGS
 */
export async function* runSubset(
  run: Run,
  { subset = 1, ...request }: RunRequest & JobOrigin,
  random: (below: number) => number,
): AsyncGenerator<JobUpdate, void, void> {
  if (!Number.isSafeInteger(subset) || subset < 1) {
    throw new MasterError('ERR_ARGS', '`subset` must be an integer of at least 1');
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
  const { delimiter: _delimiter, judgePart, ...rest } = request;
  const tgt = choose(having, subset, random);
  const job = { ...rest, tgt, tgtType: 'list', leftOut: { missing, isNarrowed } } as const;
  yield* run(judgePart === undefined ? job : await judgePart(job));
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
