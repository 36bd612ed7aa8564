/** A job on so many minions at a time [salt cli/batch.py]. */
import { MasterError } from '../errors.ts';
import { Coolings, Places, type StartTimer, startTimer } from './batch-places.ts';
import type { JobUpdate } from './follow.ts';
import { ParallelJobs } from './parallel-jobs.ts';
import { isFailureCode } from './retcode.ts';
import type { RunRequest } from './run.ts';

/** A job, and how it is spread. */
export interface BatchRequest extends RunRequest {
  /** Minions at a time: a number, or a part of those that answered, such as `25%`. */
  readonly size: number | string;
  /** Seconds that a place stays empty after its minion is done. Default 0. */
  readonly waitSeconds?: number;
  /** Whether the first failure ends it; what runs by then is not waited for. Default false. */
  readonly failHard?: boolean;
}

/** What a batch tells: `gathered`, then what its jobs tell, `ended` last. */
export type BatchUpdate =
  | {
      readonly type: 'gathered';
      /** Minions that answered a ping; the job is for them. */
      readonly minions: readonly string[];
      /** Minions that did not; nothing will be sent to them. */
      readonly silent: readonly string[];
    }
  | JobUpdate
  | {
      readonly type: 'ended';
      /** The minion whose failure ended it (`failHard`). */
      readonly failed?: string;
      /** Minions that nothing was sent to because of that. */
      readonly left: readonly string[];
    };

/** Publishes one job and follows it. */
type Run = (request: RunRequest, signal?: AbortSignal) => AsyncIterable<JobUpdate>;

const percentage = /^\d{1,3}(\.\d+)?%$/;
const count = /^[1-9]\d{0,8}$/;

/**
 * Pings the target, then runs the job on those that answer, `size` at a time: whenever minions
 * are done, the next ones get a job of their own.
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
  const places = new Places(minions, placesOf(size, minions.length));
  const end = new AbortController();
  const jobs = new ParallelJobs((ids) => {
    const stop = signal === undefined ? end.signal : AbortSignal.any([end.signal, signal]);
    return run({ ...job, tgt: ids, tgtType: 'list' }, stop);
  });
  const makeRoom = (count: number): void => {
    places.free(count);
    jobs.wake();
  };
  const coolings = new Coolings(waitSeconds * 1000, makeRoom, start);
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
