/**
 * Carries calls to the process that holds the master, and on to the next one when that ends: what
 * only reads is repeated, jobs are settled by their job ids, streams of events go on after the last
 * event that was read.
 */

import type { NamedMethod } from '../client/index.ts';
import { type MasterConfig, type MasterEvent, type RpcMethod, rpcTable } from '../master/index.ts';
import { delay, inTime, retryDelayMs } from '../runtime/index.ts';
import { SharedMasterError } from './errors.ts';
import { BrokenCallError, breakOf, type Holder } from './holder.ts';

/** Where calls find the holder. */
export interface HolderSource {
  /** In force where the calls come from. */
  readonly config: MasterConfig;
  /**
   * The process that holds the master; waits for one, at most {@link waitLimitMs} since the last one
   * ended, or since `since` if that is later.
   * @param since - when the call was made, as `performance.now()` counts. Default: now
   * @returns `undefined` when the signal fires first
   * @throws SharedMasterError ERR_NO_HOLDER, ERR_HOLDER_HUNG, ERR_WAITING_CALLS; MasterError
   * ERR_MASTER_STOPPED
   */
  holder(signal?: AbortSignal, since?: number): Promise<Holder | undefined>;
}

/** Times that a call may break while its holder goes on. */
const maxBreaks = 3;
/** For a holder whose call broke, to be seen to have ended. */
const endMs = 1000;
/**
 * Between tries to reach a holder that takes no connections, because it is stopped or busy: twice as
 * long each time, and a part of that by chance. When another process takes over, none is waited for.
 */
const retryDelays = { initialDelayMs: 50, maxDelayMs: 2000 };
/** Calls of a process that may wait for a holder. */
export const maxWaitingCalls = 10_000;

/** Milliseconds that a call waits for a holder that takes it. */
export function waitLimitMs({ takeoverAfterSeconds, holderWaitSeconds }: MasterConfig): number {
  return (takeoverAfterSeconds + holderWaitSeconds) * 1000;
}

/** One call, or one stream, over several holders. */
export class Attempts {
  readonly #source: HolderSource;
  readonly #name: string;
  #breaks = 0;
  /** When the holder took no connection for the first time. */
  #refusedSince: number | undefined;
  #refusals = 0;
  #wasSent = false;
  readonly #since: number;

  /** @param since - when the call was made. Default: now */
  constructor(source: HolderSource, name: string, since: number = performance.now()) {
    this.#source = source;
    this.#name = name;
    this.#since = since;
  }

  /** Whether a holder that ended may have carried it out, or begun to. */
  get wasSent(): boolean {
    return this.#wasSent;
  }

  async call({ name, row }: NamedMethod, parameters: object): Promise<unknown> {
    const holder = await this.#source.holder(undefined, this.#since);
    if (holder === undefined) throw new TypeError('nothing ends the wait');
    try {
      return await holder.caller.call({ name, row }, parameters);
    } catch (error) {
      throw breakOf(error, holder);
    }
  }

  /** An item that says that all is over is held back until the stream has ended. */
  async *stream(
    method: NamedMethod,
    parameters: object,
    signal?: AbortSignal,
  ): AsyncGenerator<unknown, void, void> {
    const holder = await this.#source.holder(signal);
    if (holder === undefined) return;
    let last: unknown;
    try {
      for await (const item of await holder.caller.open(method, parameters, signal)) {
        if (last !== undefined) yield last;
        last = isLast(item) ? item : undefined;
        if (last === undefined) yield item;
      }
    } catch (error) {
      if (signal?.aborted) return;
      throw breakOf(error, holder);
    }
    if (last !== undefined) yield last;
  }

  /**
   * After a failure: resolves when it may be tried again.
   * @throws the failure, if the end of a holder is not what it was
   */
  async afterBreak(error: unknown): Promise<void> {
    if (!(error instanceof BrokenCallError)) throw this.#wasSent ? this.#unknown(error) : error;
    this.#wasSent ||= error.wasSent;
    const { end } = error.holder;
    await inTime(delay(error.wasSent ? endMs : this.#retryMs()), end);
    if (end.aborted) [this.#refusedSince, this.#refusals] = [undefined, 0];
    else if (error.wasSent) this.#countBreak(error);
    else this.#limitRefusals(error);
  }

  #retryMs(): number {
    this.#refusals += 1;
    return retryDelayMs(this.#refusals, retryDelays, Math.random);
  }

  #countBreak(error: BrokenCallError): void {
    this.#breaks += 1;
    if (this.#breaks >= maxBreaks) throw this.#unknown(error);
  }

  #limitRefusals(cause: BrokenCallError): void {
    this.#refusedSince ??= performance.now();
    if (performance.now() - this.#refusedSince < waitLimitMs(this.#source.config)) return;
    const message = 'the process that holds the master takes no connections';
    const error = new SharedMasterError('ERR_NO_HOLDER', message, { cause });
    throw this.#wasSent ? this.#unknown(error) : error;
  }

  /** @throws SharedMasterError ERR_OUTCOME_UNKNOWN if a holder may have carried it out */
  refuseRepetition(): void {
    if (this.#wasSent) throw this.#unknown(undefined);
  }

  /** What the next holder says of it is for the caller; that there is none leaves it open. */
  #unknown(cause: unknown): unknown {
    if (cause instanceof Error && !(cause instanceof SharedMasterError)) {
      if (!(cause instanceof BrokenCallError)) return cause;
    }
    const message = `${this.#name}: the process that held the master ended meanwhile; whether it was done is not known`;
    return new SharedMasterError('ERR_OUTCOME_UNKNOWN', message, { cause });
  }
}

function isLast(item: unknown): boolean {
  if (typeof item !== 'object' || item === null || !('type' in item)) return false;
  return item.type === 'finished' || item.type === 'ended';
}

/** A value: repeated if that does no harm. */
export async function callShared(
  source: HolderSource,
  method: NamedMethod,
  parameters: object,
): Promise<unknown> {
  const attempts = new Attempts(source, method.name);
  for (;;) {
    try {
      return await attempts.call(method, parameters);
    } catch (error) {
      if (method.row.isIdempotent === true) await afterHarmless(attempts, error);
      else {
        await attempts.afterBreak(error);
        attempts.refuseRepetition();
      }
    }
  }
}

/** What it failed with is for the caller, whatever was done before. */
async function afterHarmless(attempts: Attempts, error: unknown): Promise<void> {
  if (error instanceof SharedMasterError) throw error;
  await attempts.afterBreak(error);
}

/** A stream of something that only reads: it begins anew, and its first item is told once. */
export async function* streamShared(
  source: HolderSource,
  method: NamedMethod,
  parameters: object,
  signal?: AbortSignal,
): AsyncGenerator<unknown, void, void> {
  const attempts = new Attempts(source, method.name);
  for (let isBegun = false; ; ) {
    let isFirst = true;
    try {
      for await (const item of attempts.stream(method, parameters, signal)) {
        if (!(isFirst && isBegun)) yield item;
        isFirst = false;
        isBegun = true;
      }
      return;
    } catch (error) {
      await afterHarmless(attempts, error);
    }
  }
}

/** Events, from the one after the last that was read on; listens when it resolves. */
export async function subscribeShared(
  source: HolderSource,
  method: NamedMethod,
  parameters: { readonly after?: string },
  signal?: AbortSignal,
): Promise<AsyncGenerator<unknown, void, void>> {
  const attempts = new Attempts(source, method.name);
  const open = async (after: string | undefined) => {
    const holder = await source.holder(signal);
    if (holder === undefined) return undefined;
    const from = after === undefined ? {} : { after };
    try {
      const events = await holder.caller.open(method, { ...parameters, ...from }, signal);
      return { holder, events };
    } catch (error) {
      throw breakOf(error, holder);
    }
  };
  const openAgain = async (after: string | undefined): ReturnType<typeof open> => {
    for (;;) {
      try {
        return await open(after);
      } catch (error) {
        await afterHarmless(attempts, error);
      }
    }
  };
  // Where no events are kept, what follows it begins with an event that says that some are missing.
  const nowhere = source.config.eventRing === null ? 'none' : undefined;
  const first = await openAgain(parameters.after);
  return (async function* () {
    let { after } = parameters;
    for (let opened = first; opened !== undefined; opened = await openAgain(after ?? nowhere)) {
      const { holder, events } = opened;
      try {
        for await (const event of events) {
          // The row of the method says so.
          after = (event as MasterEvent).id ?? after;
          yield event;
        }
        return;
      } catch (error) {
        if (signal?.aborted) return;
        await afterHarmless(attempts, breakOf(error, holder));
      }
    }
  })();
}

/** A row of the table of methods. */
function methodOf(name: string, row: unknown): NamedMethod {
  return { name, row: row as RpcMethod };
}

/** The methods of jobs that calls are settled by. */
export const jobMethods: Readonly<
  Record<'publish' | 'run' | 'batch' | 'follow' | 'show', NamedMethod>
> = {
  publish: methodOf('jobs.publish', rpcTable.jobs.publish),
  run: methodOf('jobs.run', rpcTable.jobs.run),
  batch: methodOf('jobs.batch', rpcTable.jobs.batch),
  follow: methodOf('jobs.follow', rpcTable.jobs.follow),
  show: methodOf('jobs.show', rpcTable.jobs.show),
};
