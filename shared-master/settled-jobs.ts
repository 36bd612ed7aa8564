/**
 * Jobs across the end of the process that published them. Each has its job id before it is sent, and
 * a job is stored before it leaves. Where the next holder knows none of that id, or knows that it was
 * never sent, it is published then; else the job is followed on and never published again.
 */

import type { NamedMethod } from '../client/index.ts';
import type { Delivery, FunctionResult, JobReceipt, JobReport } from '../master/index.ts';
import { codeOf, Semaphore } from '../runtime/index.ts';
import { SharedMasterError } from './errors.ts';
import {
  Attempts,
  callShared,
  type HolderSource,
  jobMethods,
  maxWaitingCalls,
} from './shared-caller.ts';

/** Parameters of `jobs.publish`, `run` and `batch`, as far as they matter here. */
interface JobParameters {
  readonly jid?: string;
  readonly user?: string;
  /** Whoever it is of calls; the job ids of users are the master's. */
  readonly token?: string;
  readonly size?: number | string;
  readonly failHard?: boolean;
  readonly delimiter?: string;
}

/** What matters of what a job tells. */
interface Update {
  readonly type: string;
  readonly minion?: string;
  readonly resource?: string;
  readonly retcode?: unknown;
  readonly minions?: readonly string[];
  readonly missing?: readonly string[];
  readonly skipped?: number;
  readonly notSent?: readonly string[];
  readonly deliveries?: readonly Delivery[];
}

/** What the holder keeps of a job. */
interface KeptJob {
  readonly receipt: JobReceipt;
  /** Those of its minions that it was never sent to. */
  readonly notSent: readonly string[];
}

/**
 * Publications of a process that are under way at a time: each of them has to be settled when the
 * holder ends; the others wait here and were certainly not sent.
 */
const maxPublishing = 32;

export class SettledJobs {
  readonly #source: HolderSource;
  readonly #nextJid: () => string;
  readonly #publishing = new Semaphore(maxPublishing);
  #waiting = 0;

  /** @param nextJid - job ids that no other process makes */
  constructor(source: HolderSource, nextJid: () => string) {
    this.#source = source;
    this.#nextJid = nextJid;
  }

  /** `jobs.publish`. */
  async publish(parameters: JobParameters): Promise<unknown> {
    if (this.#waiting >= maxWaitingCalls) {
      throw new SharedMasterError('ERR_WAITING_CALLS', `${maxWaitingCalls} publications wait`);
    }
    this.#waiting += 1;
    const since = performance.now();
    try {
      return await this.#publishing.run(() => this.#publishSettled(parameters, since));
    } finally {
      this.#waiting -= 1;
    }
  }

  async #publishSettled(parameters: JobParameters, since: number): Promise<unknown> {
    const jid = this.#jidOf(parameters);
    if (jid === undefined) return callShared(this.#source, jobMethods.publish, parameters);
    const attempts = new Attempts(this.#source, `jobs.publish of ${jid}`, since);
    for (;;) {
      try {
        // protection: settled-publications
        const kept = await this.#keptJob(attempts, jid);
        if (kept !== undefined && kept.notSent.length === 0) return kept.receipt;
        return await attempts.call(jobMethods.publish, { ...parameters, jid });
      } catch (error) {
        await attempts.afterBreak(error);
      }
    }
  }

  /** `jobs.run`. */
  async *run(parameters: JobParameters, signal?: AbortSignal): AsyncGenerator<unknown, void, void> {
    const jid = this.#jidOf(parameters);
    const attempts = new Attempts(this.#source, `jobs.run of ${jid ?? 'a user'}`);
    const told = new SeenUpdates();
    for (;;) {
      try {
        const kept = await this.#keptJob(attempts, jid);
        const wasPublished = kept !== undefined && kept.notSent.length === 0;
        if (wasPublished) yield* this.#follow(attempts, kept.receipt.jid, told, signal);
        else {
          const request = jid === undefined ? parameters : { ...parameters, jid };
          yield* told.fresh(attempts.stream(jobMethods.run, request, signal));
        }
        return;
      } catch (error) {
        await attempts.afterBreak(error);
        if (jid === undefined) attempts.refuseRepetition();
      }
    }
  }

  /** `jobs.follow`. */
  async *follow(
    parameters: JobParameters,
    signal?: AbortSignal,
  ): AsyncGenerator<unknown, void, void> {
    const attempts = new Attempts(this.#source, `jobs.follow of ${parameters.jid}`);
    const told = new SeenUpdates();
    for (;;) {
      try {
        yield* told.fresh(attempts.stream(jobMethods.follow, parameters, signal));
        return;
      } catch (error) {
        if (error instanceof SharedMasterError) throw error;
        await attempts.afterBreak(error);
      }
    }
  }

  /** `jobs.batch`: minions that it has not reached yet are a batch of their own, of the same id. */
  async *batch(
    parameters: JobParameters,
    signal?: AbortSignal,
  ): AsyncGenerator<unknown, void, void> {
    const jid = this.#jidOf(parameters);
    const attempts = new Attempts(this.#source, `jobs.batch of ${jid ?? 'a user'}`);
    const told = new SeenUpdates();
    let gathered: readonly string[] | undefined;
    let request: object = jid === undefined ? parameters : { ...parameters, jid };
    for (;;) {
      try {
        const kept = await this.#keptJob(attempts, jid);
        const reached = new Set(kept?.receipt.minions);
        for (const id of kept?.notSent ?? []) reached.delete(id);
        const left = gathered?.filter((id) => !reached.has(id));
        if (kept !== undefined && jid !== undefined) {
          let failed: string | undefined;
          for await (const update of this.#follow(attempts, jid, told, signal)) {
            yield update;
            failed ??= failureOf(update);
          }
          if (parameters.failHard && failed !== undefined) {
            yield { type: 'ended', failed, left: left ?? [] };
            return;
          }
          told.expectAnother();
        }
        if (left !== undefined && gathered !== undefined) {
          if (left.length === 0) {
            yield { type: 'ended', left: [] };
            return;
          }
          const { delimiter: _, ...rest } = { ...parameters, jid };
          const size = absoluteSize(parameters.size, gathered.length);
          request = { ...rest, tgt: left, tgtType: 'list', size };
        }
        for await (const item of told.fresh(attempts.stream(jobMethods.batch, request, signal))) {
          const update = item as Update;
          if (update.type === 'gathered') gathered ??= update.minions ?? [];
          yield item;
        }
        return;
      } catch (error) {
        await attempts.afterBreak(error);
        if (jid === undefined) attempts.refuseRepetition();
      }
    }
  }

  /** `run` of runners and wheel functions. */
  async runFunction(method: NamedMethod, parameters: JobParameters): Promise<unknown> {
    return this.#callFunction(method, parameters, ({ jid, returns }) => {
      const [kept] = returns;
      const told = kept?.return;
      if (kept === undefined || typeof told !== 'object' || told === null) return undefined;
      const {
        fun,
        return: value,
        success,
      } = Object.fromEntries(told instanceof Map ? told : Object.entries(told));
      // What is for its caller alone is not kept.
      if (value === undefined || value === null) return undefined;
      const isSuccess = success === true;
      const result: FunctionResult = {
        jid,
        fun: String(fun),
        return: value,
        success: isSuccess,
        ...(kept.retcode === 0 ? {} : { retcode: Number(kept.retcode) }),
      };
      return result;
    });
  }

  /** `start` of runners and wheel functions. */
  async startFunction(method: NamedMethod, parameters: JobParameters): Promise<unknown> {
    const kind = method.name.startsWith('wheel') ? 'wheel' : 'run';
    return this.#callFunction(method, parameters, ({ jid }) => ({
      jid,
      tag: `salt/${kind}/${jid}`,
    }));
  }

  /** What has begun and is not in the list of jobs may have been done in part. */
  async #callFunction(
    method: NamedMethod,
    parameters: JobParameters,
    resultOf: (report: JobReport) => object | undefined,
  ): Promise<unknown> {
    const jid = parameters.jid ?? this.#nextJid();
    const attempts = new Attempts(this.#source, `${method.name} of ${jid}`);
    const request = parameters.token === undefined ? { ...parameters, jid } : parameters;
    for (;;) {
      try {
        if (!attempts.wasSent) return await attempts.call(method, request);
        // The row says what it gives.
        const report = (await attempts.call(jobMethods.show, { jid })) as JobReport;
        const result = resultOf(report);
        if (result === undefined) attempts.refuseRepetition();
        return result;
      } catch (error) {
        if (codeOf(error) === 'ERR_JOB_UNKNOWN') attempts.refuseRepetition();
        await attempts.afterBreak(error);
      }
    }
  }

  /** `undefined`: what becomes of it cannot be learned from its job id. */
  #jidOf({ jid, user = '', token }: JobParameters): string | undefined {
    const isUsers = token !== undefined || user.startsWith('sudo_');
    return isUsers || !this.#source.config.jobCache ? undefined : (jid ?? this.#nextJid());
  }

  /** What the holder keeps of a job; `undefined`: none of this id was ever published. */
  async #keptJob(attempts: Attempts, jid: string | undefined): Promise<KeptJob | undefined> {
    if (!attempts.wasSent || jid === undefined) return undefined;
    try {
      for await (const item of attempts.stream(jobMethods.follow, { jid })) {
        const { minions = [], missing = [], skipped = 0, notSent = [] } = item as Update;
        return { receipt: { jid, minions, missing, skipped }, notSent };
      }
    } catch (error) {
      if (codeOf(error) !== 'ERR_JOB_UNKNOWN') throw error;
    }
    return undefined;
  }

  async *#follow(
    attempts: Attempts,
    jid: string,
    told: SeenUpdates,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Update, void, void> {
    for await (const item of told.fresh(attempts.stream(jobMethods.follow, { jid }, signal))) {
      yield settledUpdate(item as Update);
    }
  }
}

/** What a caller was told of a job, over all that told it. */
class SeenUpdates {
  readonly #names = new Set<string>();

  async *fresh(items: AsyncIterable<unknown>): AsyncGenerator<unknown, void, void> {
    for await (const item of items) {
      const name = nameOf(item as Update);
      if (name !== undefined && this.#names.has(name)) continue;
      if (name !== undefined) this.#names.add(name);
      yield item;
    }
  }

  /** More minions get the job: it is published, and ends, once more. */
  expectAnother(): void {
    this.#names.delete('published');
  }
}

/** `undefined`: it may be told again. */
function nameOf({ type, minion, resource = '' }: Update): string | undefined {
  if (type === 'return') return `return ${minion} ${resource}`;
  return type === 'published' || type === 'gathered' ? type : undefined;
}

const knownReasons: ReadonlySet<string | undefined> = new Set(['key-not-accepted', 'not-sent']);

/** Silence says nothing where the job may never have left, or its return may have been lost. */
function settledUpdate(update: Update): Update {
  if (update.type !== 'finished' || update.deliveries === undefined) return update;
  return {
    ...update,
    deliveries: update.deliveries.map((one) =>
      one.state === 'silent' && !knownReasons.has(one.reason) ? { ...one, reason: 'unknown' } : one,
    ),
  };
}

function failureOf({ type, minion, retcode }: Update): string | undefined {
  return type === 'return' && retcode !== 0 ? minion : undefined;
}

/** A part of those that were there at first. */
function absoluteSize(size: number | string = 1, minions: number): number | string {
  if (typeof size !== 'string' || !size.endsWith('%')) return size;
  return Math.max(1, Math.floor((Number(size.slice(0, -1)) / 100) * minions));
}
