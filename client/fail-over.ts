/**
 * Carries calls to one master, and on to the next one when that ends: what only reads is repeated,
 * streams of events go on after the last event that was read, and what may have been done fails.
 */

import type { MasterEvent } from '#master';
import { codeOf, delay, inTime, retryDelayMs } from '#runtime';
import type { Connection } from './connection.ts';
import { RemoteError } from './errors.ts';
import type { MethodCaller, NamedMethod } from './rpc-client.ts';

/** A master as calls reach it. */
export interface ReachedMaster {
  readonly caller: MethodCaller;
  /** For methods that are in no table of this program. */
  readonly connection: Connection;
  /** Fires when calls are to go to another one. */
  readonly end: AbortSignal;
  /**
   * Names where its jobs are kept, the same for masters that keep them together. `undefined`: what
   * became of a job cannot be learned from its job id.
   */
  readonly jobs: string | undefined;
  /** What the job ids of its caller end with. Default: they may choose any. */
  readonly ownJobs?: string | undefined;
  /** Whether there are others, which may take what this one refuses for now. */
  readonly hasOthers: boolean;
  /** Is told that a call to it broke. */
  readonly onBreak: () => void;
}

/** Where calls find a master. */
export interface MasterSource {
  /** Milliseconds for which a call is offered to a master that takes no connections. */
  readonly waitLimitMs: number;
  /**
   * The master that takes calls now; waits for one.
   * @param since - when the call was made, as `performance.now()` counts. Default: now
   * @returns `undefined` when the signal fires first
   * @throws that there is none
   */
  master(signal?: AbortSignal, since?: number): Promise<ReachedMaster | undefined>;
  /** That it has taken no connections for so long. */
  refused(cause: unknown): Error;
}

/** Times that a call may break while its master goes on, and in all. */
const maxBreaks = 3;
const maxEnds = 10;
/** For a master whose call broke, to be seen to have ended. */
const endMs = 1000;
/**
 * Between tries to reach a master that takes no connections, because it is stopped or busy: twice as
 * long each time, and a part of that by chance. When another one takes over, none is waited for.
 */
const retryDelays = { initialDelayMs: 50, maxDelayMs: 2000 };
/** Calls of a process that may wait for a master. */
export const maxWaitingCalls = 10_000;

/** A call that ended because its master did. */
class BrokenCallError extends Error {
  /** Whether the master may have carried it out, or begun to. */
  readonly wasSent: boolean;
  readonly master: ReachedMaster;

  constructor(master: ReachedMaster, wasSent: boolean, cause: unknown) {
    super('the master ended', { cause });
    this.name = new.target.name;
    this.master = master;
    this.wasSent = wasSent;
  }
}

/** That there was no master for a try; its cause says why. */
class NoMasterError extends Error {}

/** What a call failed with: {@link BrokenCallError} where another master may take it. */
function breakOf(error: unknown, master: ReachedMaster, hasBegun = false): unknown {
  switch (codeOf(error)) {
    case 'ERR_CLUSTER_ALONE':
    case 'ERR_MASTER_DRAINING':
      // Nothing was done.
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
  /** When the call was made, as `performance.now()` counts. Default: now. */
  readonly since?: number;
  /** Whether, once it may have been begun, it goes on only where the jobs of that master are kept. */
  readonly isJob?: boolean;
  /** Whether it may be begun twice: it only reads, or comes to the same. */
  readonly isHarmless?: boolean;
  /** Whether it must not be repeated once a master may have carried it out. Default false. */
  readonly isOnce?: boolean;
}

/** One call, or one stream, over several masters. */
export class Attempts {
  readonly #source: MasterSource;
  readonly #name: string;
  readonly #since: number;
  readonly #isJob: boolean;
  readonly #isHarmless: boolean;
  readonly #isOnce: boolean;
  #breaks = 0;
  #ends = 0;
  /** When the master took no connection for the first time. */
  #refusedSince: number | undefined;
  #refusals = 0;
  /** Whether a master has refused the job because of its id. */
  #wasRefused = false;
  /** The one that may have carried it out, or begun to. */
  #begunAt: ReachedMaster | undefined;

  constructor(source: MasterSource, name: string, options: AttemptsOptions = {}) {
    this.#source = source;
    this.#name = name;
    this.#since = options.since ?? performance.now();
    this.#isJob = options.isJob ?? false;
    this.#isHarmless = options.isHarmless ?? false;
    this.#isOnce = options.isOnce ?? false;
  }

  /** Whether a master that ended may have carried it out, or begun to. */
  get wasSent(): boolean {
    return this.#begunAt !== undefined;
  }

  /** The next try of a value. */
  async try<T>(work: (master: ReachedMaster) => Promise<T>): Promise<T> {
    const master = await this.#master();
    if (master === undefined) throw new TypeError('nothing ends the wait');
    return this.#guard(master, () => work(master));
  }

  call(method: NamedMethod, parameters: object): Promise<unknown> {
    return this.try(({ caller }) => caller.call(method, parameters));
  }

  /**
   * The next try of a stream, which has begun when it resolves; breaks of it are those of the call.
   * @returns `undefined` when the signal fires first
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

  /** The next try of a stream. An item that says that all is over is held back until it has ended. */
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

  /** The stream has gone on: what broke before counts no more. */
  goesOn(): void {
    [this.#breaks, this.#ends] = [0, 0];
  }

  async #master(signal?: AbortSignal): Promise<ReachedMaster | undefined> {
    let master: ReachedMaster | undefined;
    try {
      master = await this.#source.master(signal, this.#since);
    } catch (cause) {
      throw new NoMasterError('no master takes calls', { cause });
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
   * After a failure: resolves when it may be tried again.
   * @throws the failure, if the end of a master is not what it was
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

  /** A master that hears of the job only now refuses another one of its id: it is looked up again. */
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

  /** Repeats the work, one attempt after the other, until it succeeds or may not be repeated. */
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

  /** The items of each attempt, until one ends without a break. */
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

  /** @throws RemoteError ERR_OUTCOME_UNKNOWN if a master may have carried it out */
  refuseRepetition(): void {
    if (this.wasSent) throw this.outcomeUnknown();
  }

  outcomeUnknown(cause?: unknown): RemoteError {
    const message = `${this.#name}: the master ended meanwhile; whether it was done is not known`;
    return new RemoteError('ERR_OUTCOME_UNKNOWN', message, { cause });
  }
}

function isLast(item: unknown): boolean {
  if (typeof item !== 'object' || item === null || !('type' in item)) return false;
  return item.type === 'finished' || item.type === 'ended';
}

/** A value: repeated if that does no harm. */
export async function callOver(
  source: MasterSource,
  method: NamedMethod,
  parameters: object,
): Promise<unknown> {
  const isHarmless = method.row.isIdempotent === true;
  const attempts = new Attempts(source, method.name, { isHarmless, isOnce: !isHarmless });
  return attempts.settle(() => attempts.call(method, parameters));
}

/** A stream of something that only reads: it begins anew, and its first item is told once. */
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

/** No event: what follows it begins with an event that says that some are missing. */
const noEvent = 'none';

/** Events, from the one after the last that was read on; listens when it resolves. */
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
          // The row of the method says so.
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
