/**
 * Sends calls to one master, and to the next one when that stops. Calls that only read are
 * repeated, event streams continue after the last received event, and calls that may have been
 * carried out fail.
 */

import type { MasterEvent } from '#master';
import { codeOf, delay, inTime, retryDelayMs } from '#runtime';
import type { Connection } from './connection.ts';
import { RemoteError } from './errors.ts';
import type { MethodCaller, NamedMethod } from './rpc-client.ts';

/** A master that calls can reach. */
export interface ReachedMaster {
  readonly caller: MethodCaller;
  /** Connection for methods that are not in this program's method table. */
  readonly connection: Connection;
  /** Aborted when calls must go to another master. */
  readonly end: AbortSignal;
  /**
   * Identifier of the job storage, which is the same for masters that share it. `undefined` if the
   * result of a job cannot be looked up by its id.
   */
  readonly jobs: string | undefined;
  /** Required suffix of the job ids of this caller. Default: any ids. */
  readonly ownJobs?: string | undefined;
  /** Whether there are other masters that may accept a call that this one temporarily rejects. */
  readonly hasOthers: boolean;
  /** Called when a call to this master broke. */
  readonly onBreak: () => void;
}

/** Source of the master for the next call. */
export interface MasterSource {
  /** Time for which a call waits for a master that accepts no connections, in milliseconds. */
  readonly waitLimitMs: number;
  /**
   * Returns the current master, or waits for one.
   * @param since - time of the call, on the clock of `performance.now()`. Default: now
   * @returns `undefined` if the signal is aborted first
   * @throws without a master
   */
  master(signal?: AbortSignal, since?: number): Promise<ReachedMaster | undefined>;
  /** Returns the error for a master that has accepted no connections for too long. */
  refused(cause: unknown): Error;
}

/**
 * Maximum number of breaks of a call while its master continues to run, and of ends of its master.
 */
const maxBreaks = 3;
const maxEnds = 10;
/** Time to wait for the end of a master after a broken call, in milliseconds. */
const endMs = 1000;
/**
 * Delays between attempts to reach a master that accepts no connections, because it is stopped or
 * busy. They double each time and have random jitter. If another master takes over, the wait ends.
 */
const retryDelays = { initialDelayMs: 50, maxDelayMs: 2000 };
/** Maximum number of calls of a process that may wait for a master. */
export const maxWaitingCalls = 10_000;

/** Error of a call that ended because its master stopped. */
class BrokenCallError extends Error {
  /** Whether the master may have carried out the call, completely or in part. */
  readonly wasSent: boolean;
  readonly master: ReachedMaster;

  constructor(master: ReachedMaster, wasSent: boolean, cause: unknown) {
    super('the master stopped during the call', { cause });
    this.name = new.target.name;
    this.master = master;
    this.wasSent = wasSent;
  }
}

/** Error of an attempt without a master. Its cause is the reason. */
class NoMasterError extends Error {}

/** Returns the error of a call: a {@link BrokenCallError} if another master may accept the call. */
function breakOf(error: unknown, master: ReachedMaster, hasBegun = false): unknown {
  switch (codeOf(error)) {
    case 'ERR_CLUSTER_ALONE':
    case 'ERR_MASTER_DRAINING':
      // The master has done nothing.
      return master.hasOthers && !hasBegun ? new BrokenCallError(master, false, error) : error;
    case 'ERR_SOCKET':
    case 'ERR_MASTER_STOPPED':
      return new BrokenCallError(master, !(error instanceof RemoteError) || error.wasSent, error);
    case 'ERR_STORE_CLOSED':
    case 'ERR_STORE_DIVERGED':
    case 'ERR_STORE_FENCED':
      return new BrokenCallError(master, true, error);
    default:
      return error;
  }
}

export interface AttemptsOptions {
  /** Time of the call, on the clock of `performance.now()`. Default: now. */
  readonly since?: number;
  /**
   * Whether the call, once it may have been started, may continue only on masters with the same job
   * storage.
   */
  readonly isJob?: boolean;
  /** Whether the call may be carried out twice, because it only reads or has the same result. */
  readonly isHarmless?: boolean;
  /**
   * Whether the call must not be repeated once a master may have carried it out. Default: `false`.
   */
  readonly isOnce?: boolean;
}

/** Attempts of one call or one stream over several masters. */
export class Attempts {
  readonly #source: MasterSource;
  readonly #name: string;
  readonly #since: number;
  readonly #isJob: boolean;
  readonly #isHarmless: boolean;
  readonly #isOnce: boolean;
  #breaks = 0;
  #ends = 0;
  /** Time at which the master first refused a connection. */
  #refusedSince: number | undefined;
  #refusals = 0;
  /** Whether a master has rejected the job because of its id. */
  #wasRefused = false;
  /** First master that may have carried out the call, completely or in part. */
  #begunAt: ReachedMaster | undefined;

  constructor(source: MasterSource, name: string, options: AttemptsOptions = {}) {
    this.#source = source;
    this.#name = name;
    this.#since = options.since ?? performance.now();
    this.#isJob = options.isJob ?? false;
    this.#isHarmless = options.isHarmless ?? false;
    this.#isOnce = options.isOnce ?? false;
  }

  /** Whether a master that stopped may have carried out the call, completely or in part. */
  get wasSent(): boolean {
    return this.#begunAt !== undefined;
  }

  /** Makes the next attempt to get a value. */
  async try<T>(work: (master: ReachedMaster) => Promise<T>): Promise<T> {
    const master = await this.#master();
    if (master === undefined) throw new TypeError('a wait without a signal must return a master');
    return this.#guard(master, () => work(master));
  }

  call(method: NamedMethod, parameters: object): Promise<unknown> {
    return this.try(({ caller }) => caller.call(method, parameters));
  }

  /**
   * Makes the next attempt to open a stream, which has started when the promise resolves. Breaks of
   * the stream count as breaks of the call.
   * @returns `undefined` if the signal is aborted first
   */
  async open<T>(
    begin: (master: ReachedMaster) => Promise<AsyncIterable<T>>,
    signal?: AbortSignal,
  ): Promise<AsyncGenerator<T, void, void> | undefined> {
    const master = await this.#master(signal);
    if (master === undefined) return undefined;
    const items = await this.#guard(master, () => begin(master));
    return (async function* () {
      let hasBegun = false;
      try {
        for await (const item of items) {
          hasBegun = true;
          yield item;
        }
      } catch (error) {
        if (!signal?.aborted) throw breakOf(error, master, hasBegun);
      }
    })();
  }

  /**
   * Makes the next attempt to read a stream. A final item is returned only after the stream has
   * ended.
   */
  async *stream(
    method: NamedMethod,
    parameters: object,
    signal?: AbortSignal,
  ): AsyncGenerator<unknown, void, void> {
    const begin = ({ caller }: ReachedMaster) => caller.open(method, parameters, signal);
    let last: unknown;
    for await (const item of (await this.open(begin, signal)) ?? []) {
      if (last !== undefined) yield last;
      last = isLast(item) ? item : undefined;
      if (last === undefined) yield item;
    }
    if (last !== undefined) yield last;
  }

  /** Resets the counters of breaks, because the stream has made progress. */
  goesOn(): void {
    [this.#breaks, this.#ends] = [0, 0];
  }

  async #master(signal?: AbortSignal): Promise<ReachedMaster | undefined> {
    let master: ReachedMaster | undefined;
    try {
      master = await this.#source.master(signal, this.#since);
    } catch (cause) {
      throw new NoMasterError('no master accepts calls', { cause });
    }
    if (master !== undefined) this.#requireSameJobs(master);
    return master;
  }

  #requireSameJobs({ jobs }: ReachedMaster): void {
    if (!this.#isJob || this.#begunAt === undefined) return;
    if (jobs === undefined || jobs !== this.#begunAt.jobs) throw this.outcomeUnknown();
  }

  async #guard<T>(master: ReachedMaster, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw breakOf(error, master);
    }
  }

  /**
   * Handles a failure. Resolves when the call may be attempted again.
   * @throws the failure, unless it was caused by the end of a master
   */
  async afterBreak(error: unknown): Promise<void> {
    if (error instanceof NoMasterError) throw this.#failure(error.cause);
    if (this.#isConflict(error)) return;
    if (!(error instanceof BrokenCallError)) throw error;
    const { master, wasSent } = error;
    if (wasSent) this.#begunAt ??= master;
    master.onBreak();
    await inTime(delay(wasSent ? endMs : this.#retryMs()), master.end);
    if (master.end.aborted) this.#countEnd(error);
    else if (wasSent) this.#countBreak(error);
    else this.#limitRefusals(error);
  }

  /**
   * Whether a master rejected the job id because it received the job only now. The job is then
   * looked up again.
   */
  #isConflict(error: unknown): boolean {
    if (!this.#isJob || !this.wasSent || codeOf(error) !== 'ERR_ARGS') return false;
    const isFirst = !this.#wasRefused;
    this.#wasRefused = true;
    return isFirst;
  }

  #retryMs(): number {
    this.#refusals += 1;
    return retryDelayMs(this.#refusals, retryDelays, Math.random);
  }

  #countEnd(error: BrokenCallError): void {
    [this.#refusedSince, this.#refusals] = [undefined, 0];
    this.#ends += 1;
    if (this.#ends >= maxEnds) throw this.#failure(error.cause);
  }

  #countBreak(error: BrokenCallError): void {
    this.#breaks += 1;
    if (this.#breaks >= maxBreaks) throw this.#failure(error.cause);
  }

  #limitRefusals(cause: BrokenCallError): void {
    this.#refusedSince ??= performance.now();
    if (performance.now() - this.#refusedSince < this.#source.waitLimitMs) return;
    throw this.#failure(this.#source.refused(cause));
  }

  #failure(cause: unknown): unknown {
    return this.wasSent && !this.#isHarmless ? this.outcomeUnknown(cause) : cause;
  }

  /** Repeats the work, one attempt after the other, until it succeeds or must not be repeated. */
  async settle<T>(work: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        await this.afterBreak(error);
        if (this.#isOnce) this.refuseRepetition();
      }
    }
  }

  /** Returns the items of each attempt until one ends without a break. */
  async *settleStream<T>(open: () => AsyncIterable<T>): AsyncGenerator<T, void, void> {
    for (;;) {
      try {
        yield* open();
        return;
      } catch (error) {
        await this.afterBreak(error);
        if (this.#isOnce) this.refuseRepetition();
      }
    }
  }

  /** @throws RemoteError ERR_OUTCOME_UNKNOWN if a master may have carried out the call */
  refuseRepetition(): void {
    if (this.wasSent) throw this.outcomeUnknown();
  }

  outcomeUnknown(cause?: unknown): RemoteError {
    const message = `${this.#name}: the master stopped during the call; it is unknown whether it was carried out`;
    return new RemoteError('ERR_OUTCOME_UNKNOWN', message, { cause });
  }
}

function isLast(item: unknown): boolean {
  if (typeof item !== 'object' || item === null || !('type' in item)) return false;
  return item.type === 'finished' || item.type === 'ended';
}

/** Calls a method that returns a value, and repeats it if that is harmless. */
export async function callOver(
  source: MasterSource,
  method: NamedMethod,
  parameters: object,
): Promise<unknown> {
  const isHarmless = method.row.isIdempotent === true;
  const attempts = new Attempts(source, method.name, { isHarmless, isOnce: !isHarmless });
  return attempts.settle(() => attempts.call(method, parameters));
}

/**
 * Streams data that is only read. After a break the stream starts anew, and its first item is not
 * returned again.
 */
export async function* streamOver(
  source: MasterSource,
  method: NamedMethod,
  parameters: object,
  signal?: AbortSignal,
): AsyncGenerator<unknown, void, void> {
  const attempts = new Attempts(source, method.name, { isHarmless: true });
  let isBegun = false;
  yield* attempts.settleStream(async function* () {
    let isFirst = true;
    for await (const item of attempts.stream(method, parameters, signal)) {
      if (!(isFirst && isBegun)) yield item;
      isFirst = false;
      isBegun = true;
    }
  });
}

/** Id that matches no event. The events after it start with one that reports missing events. */
const noEvent = 'none';

/**
 * Subscribes to events and continues after the last received one. The subscription is active when
 * the promise resolves.
 */
export async function subscribeOver(
  source: MasterSource,
  method: NamedMethod,
  parameters: { readonly after?: string },
  signal?: AbortSignal,
): Promise<AsyncGenerator<unknown, void, void>> {
  const attempts = new Attempts(source, method.name, { isHarmless: true });
  const open = (after: string | undefined) => {
    const request = after === undefined ? parameters : { ...parameters, after };
    return attempts.settle(() =>
      attempts.open(({ caller }) => caller.open(method, request, signal), signal),
    );
  };
  const first = await open(parameters.after);
  return (async function* () {
    let { after } = parameters;
    for (let events = first; events !== undefined; events = await open(after ?? noEvent)) {
      try {
        for await (const event of events) {
          attempts.goesOn();
          // The row of the method guarantees this type.
          after = (event as MasterEvent).id ?? after;
          yield event;
        }
        return;
      } catch (error) {
        await attempts.afterBreak(error);
      }
    }
  })();
}
