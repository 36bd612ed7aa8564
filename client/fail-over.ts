/**
 * Sends calls to one master. If that master stops, calls that only read are repeated on the next
 * master, and event streams continue after the last received event. Other calls that may have been
 * carried out fail.
 */

import type { MasterEvent } from '#master';
import { codeOf, delay, inTime, retryDelayMs } from '#runtime';
import type { Connection } from './connection.ts';
import { RemoteError } from './errors.ts';
import type { MethodCaller, NamedMethod } from './rpc-client.ts';

/** Master to which calls are sent. */
export interface ReachedMaster {
  readonly caller: MethodCaller;
  /**
   * Connection for methods of extensions, which `caller` cannot call because they are not in the
   * RPC table.
   */
  readonly connection: Connection;
  /** Aborted when this master is no longer usable, and calls must go to another one. */
  readonly end: AbortSignal;
  /**
   * Identifier of the store with the jobs. Masters that share this store have the same identifier.
   * `undefined` if the result of a job cannot be looked up by its id.
   */
  readonly jobs: string | undefined;
  /** Suffix that job ids of this caller must have. Default: any ids are permitted. */
  readonly ownJobs?: string | undefined;
  /** Whether other masters may accept a call that this one rejects temporarily. */
  readonly hasOthers: boolean;
  /** Called when the connection to this master was lost during a call. */
  readonly onBreak: () => void;
}

/** Source of the master for the next call. */
export interface MasterSource {
  /** Maximum time that a call waits while the master accepts no connections, in milliseconds. */
  readonly waitLimitMs: number;
  /**
   * Returns the current master, or waits for one.
   * @param since - start of the call, as `performance.now()` returned it. Default: now
   * @returns the master, or `undefined` if the signal is aborted before a master is available
   * @throws the reason if no master was found in time
   */
  master(signal?: AbortSignal, since?: number): Promise<ReachedMaster | undefined>;
  /** Returns the error for a master that has accepted no connections for too long. */
  refused(cause: unknown): Error;
}

/**
 * Number of times that the connection must be lost during one call for the call to fail. Counts
 * only losses after which the master still runs.
 */
const maxBreaks = 3;
/** Number of masters that must stop during one call for the call to fail. */
const maxEnds = 10;
/**
 * Time to wait after a lost connection, in milliseconds. After this time, it is known whether the
 * master has stopped.
 */
const endMs = 1000;
/**
 * Delays between attempts to reach a master that accepts no connections, because it is stopped or
 * busy. The delays double and vary randomly. The wait ends early if another master is available.
 */
const retryDelays = { initialDelayMs: 50, maxDelayMs: 2000 };
/** Maximum number of calls of a process that may wait for a master. */
export const maxWaitingCalls = 10_000;

/** Error of a call during which the connection was lost or the master stopped. */
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

/** Error of an attempt without a reachable master. The property `cause` contains the reason. */
class NoMasterError extends Error {}

/**
 * Converts the error of a call. Returns a {@link BrokenCallError} if another attempt may succeed,
 * otherwise the error itself.
 * @param hasBegun - whether the stream of the call has already delivered an item. Default: `false`
 */
function breakOf(error: unknown, master: ReachedMaster, hasBegun = false): unknown {
  switch (codeOf(error)) {
    case 'ERR_CLUSTER_ALONE':
    case 'ERR_MASTER_DRAINING':
      // The master rejected the call before it did anything.
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
  /** Start of the call, as `performance.now()` returned it. Default: now. */
  readonly since?: number;
  /**
   * Whether the call publishes a job. After a master may have published the job, the call may
   * continue only on masters with the same store of jobs.
   */
  readonly isJob?: boolean;
  /**
   * Whether the call may be carried out twice, because it only reads or has the same result each
   * time.
   */
  readonly isHarmless?: boolean;
  /**
   * Whether the call must not be repeated if a master may have carried it out. It then fails with
   * ERR_OUTCOME_UNKNOWN. Default: `false`.
   */
  readonly isOnce?: boolean;
}

/** Attempts of one call or one stream. Each attempt uses the current master. */
export class Attempts {
  readonly #source: MasterSource;
  readonly #name: string;
  readonly #since: number;
  readonly #isJob: boolean;
  readonly #isHarmless: boolean;
  readonly #isOnce: boolean;
  #breaks = 0;
  #ends = 0;
  /** Time of the first refused connection since the last success. */
  #refusedSince: number | undefined;
  #refusals = 0;
  /** Whether a master has already rejected the job because a job with its id exists. */
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

  /** Whether an earlier attempt may have been carried out, completely or in part. */
  get wasSent(): boolean {
    return this.#begunAt !== undefined;
  }

  /** Makes the next attempt of a call that returns a value. */
  async try<T>(work: (master: ReachedMaster) => Promise<T>): Promise<T> {
    const master = await this.#master();
    if (master === undefined)
      throw new TypeError('internal error: waiting for a master ended without a result');
    return this.#guard(master, () => work(master));
  }

  call(method: NamedMethod, parameters: object): Promise<unknown> {
    return this.try(({ caller }) => caller.call(method, parameters));
  }

  /**
   * Makes the next attempt to open a stream. Resolves when the stream has started. If the
   * connection is lost later, the iteration throws {@link BrokenCallError}.
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
   * Makes the next attempt to read a stream. Holds the final item back until the stream has ended
   * without an error, because the connection may be lost after this item has arrived.
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

  /**
   * Resets the counters of lost connections and stopped masters. Call it when the stream has made
   * progress.
   */
  resetBreaks(): void {
    [this.#breaks, this.#ends] = [0, 0];
  }

  async #master(signal?: AbortSignal): Promise<ReachedMaster | undefined> {
    let master: ReachedMaster | undefined;
    try {
      master = await this.#source.master(signal, this.#since);
    } catch (cause) {
      throw new NoMasterError('no reachable master accepts calls', { cause });
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
   * Handles a failed attempt. Resolves when the call may be attempted again.
   * @throws the failure, if no further attempt may be made
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
   * Whether a master rejected a job id because it had already received the job in the previous
   * attempt of this call. The caller must then look up the job again.
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

  /** Repeats the work until it succeeds, or until no further attempt is permitted. */
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

  /**
   * Yields the items of a stream. If an attempt fails, opens the stream again, until one attempt
   * ends without an error or no further attempt is permitted.
   */
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

  /**
   * Throws if a master may have carried out the call, so that it must not be attempted again.
   * @throws RemoteError ERR_OUTCOME_UNKNOWN
   */
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

/**
 * Calls a method that returns a value. If the method is idempotent and the connection is lost,
 * repeats the call on the next master.
 */
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
 * Yields the items of a stream whose method changes nothing. If the connection is lost, opens the
 * stream again on the next master. Skips the first item of the new stream, because the caller
 * already has it from the previous master.
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

/**
 * Event id that never exists. A reader that subscribes after this id first gets an event that
 * reports missing events.
 */
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
          attempts.resetBreaks();
          // The method's row in the RPC table guarantees this type.
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
