/**
 * Continues jobs on the next master if the master that publishes them stops. Each job gets its id
 * before it is sent, and a master stores a job before it publishes it. The caller can therefore ask
 * the next master for the job by its id. If that master does not have the job, or its record shows
 * that the job was not sent to all minions, the next master publishes the job. Otherwise, the
 * caller only follows the job there.
 */

import {
  type Delivery,
  type FunctionResult,
  type JobReceipt,
  type JobReport,
  type RpcMethod,
  rpcTable,
} from '#master';
import { codeOf, Semaphore } from '#runtime';
import { RemoteError } from './errors.ts';
import {
  Attempts,
  callOver,
  type MasterSource,
  maxWaitingCalls,
  streamOver,
  subscribeOver,
} from './fail-over.ts';
import { clientLimits } from './limits.ts';
import type { MethodCaller, NamedMethod } from './rpc-client.ts';

/** Returns a method of the RPC table with its name. */
function methodOf(name: string, row: unknown): NamedMethod {
  return { name, row: row as RpcMethod };
}

/** Methods with which jobs are looked up and continued. */
export const jobMethods: Readonly<
  Record<'publish' | 'run' | 'batch' | 'follow' | 'show', NamedMethod>
> = {
  publish: methodOf('jobs.publish', rpcTable.jobs.publish),
  run: methodOf('jobs.run', rpcTable.jobs.run),
  batch: methodOf('jobs.batch', rpcTable.jobs.batch),
  follow: methodOf('jobs.follow', rpcTable.jobs.follow),
  show: methodOf('jobs.show', rpcTable.jobs.show),
};

/**
 * Returns a caller that uses several masters. For each method, it determines how a call continues
 * if its master stops.
 * @param nextJid - returns unique job ids
 */
export function failOverCaller(source: MasterSource, nextJid: () => string): MethodCaller {
  const jobs = new SettledJobs(source, nextJid);
  return {
    call: (method, parameters) => {
      switch (method.name) {
        case 'jobs.publish':
          return jobs.publish(parameters);
        case 'runners.run':
        case 'wheel.run':
          return jobs.runFunction(method, parameters);
        case 'runners.start':
        case 'wheel.start':
          return jobs.startFunction(method, parameters);
        default:
          return callOver(source, method, parameters);
      }
    },
    open: async (method, parameters, signal) => {
      switch (method.name) {
        case 'jobs.run':
          return jobs.run(parameters, signal);
        case 'jobs.batch':
          return jobs.batch(parameters, signal);
        case 'jobs.follow':
          return jobs.follow(parameters, signal);
        case 'events.subscribe':
          return subscribeOver(source, method, parameters, signal);
        default:
          return streamOver(source, method, parameters, signal);
      }
    },
  };
}

/** Parameters of `jobs.publish`, `run` and `batch` that this module reads or changes. */
interface JobParameters {
  readonly jid?: string;
  readonly user?: string;
  /**
   * Token of the calling user. If it is set, the master creates the job id, so that this client
   * cannot look the job up on another master. Otherwise this client creates the id.
   */
  readonly token?: string;
  readonly size?: number | string;
  readonly failHard?: boolean;
  readonly delimiter?: string;
}

/** Fields of a job update that this module reads. */
interface Update {
  readonly type: string;
  readonly jid?: string;
  readonly minion?: string;
  readonly resource?: string;
  readonly retcode?: unknown;
  readonly minions?: readonly string[];
  readonly missing?: readonly string[];
  readonly isNarrowed?: true;
  readonly skipped?: number;
  readonly notSent?: readonly string[];
  readonly deliveries?: readonly Delivery[];
}

/** Job that was found on a master. */
interface KeptJob {
  readonly receipt: JobReceipt;
  /** Minions to which the job was certainly not sent. */
  readonly notSent: readonly string[];
}

export class SettledJobs {
  readonly #source: MasterSource;
  readonly #nextJid: () => string;
  readonly #publishing = new Semaphore(clientLimits.publications);
  #waiting = 0;

  /**
   * Creates a caller for jobs.
   * @param nextJid - returns unique job ids
   */
  constructor(source: MasterSource, nextJid: () => string) {
    this.#source = source;
    this.#nextJid = nextJid;
  }

  /**
   * Calls `jobs.publish`. If the master stops, the job is looked up on the next master, and
   * published there if necessary.
   * @throws RemoteError ERR_WAITING_CALLS if too many calls already wait for a master
   */
  async publish(parameters: JobParameters): Promise<unknown> {
    if (this.#waiting >= maxWaitingCalls) {
      throw new RemoteError(
        'ERR_WAITING_CALLS',
        `too many calls of jobs.publish wait for a master (${maxWaitingCalls}); repeat the call later`,
        {
          wasSent: false,
        },
      );
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
    const jid = await this.#jidOf(parameters);
    if (jid === undefined) return callOver(this.#source, jobMethods.publish, parameters);
    const attempts = new Attempts(this.#source, `jobs.publish (jid ${jid})`, {
      since,
      isJob: true,
    });
    return attempts.settle(async () => {
      const kept = await this.#keptJob(attempts, jid);
      if (kept !== undefined && kept.notSent.length === 0) return kept.receipt;
      return attempts.call(jobMethods.publish, { ...parameters, jid });
    });
  }

  /**
   * Calls `jobs.run`. If the master stops, the job is followed on the next master, or published
   * there if necessary.
   */
  async *run(parameters: JobParameters, signal?: AbortSignal): AsyncGenerator<unknown, void, void> {
    const jid = await this.#jidOf(parameters, signal);
    const attempts = new Attempts(
      this.#source,
      `jobs.run${jid === undefined ? '' : ` (jid ${jid})`}`,
      { isJob: true },
    );
    const seen = new SeenUpdates();
    for (;;) {
      try {
        const kept = await this.#keptJob(attempts, seen.jid ?? jid);
        const wasPublished = kept !== undefined && kept.notSent.length === 0;
        if (wasPublished) yield* this.#follow(attempts, kept.receipt.jid, seen, signal);
        else {
          const request = jid === undefined ? parameters : { ...parameters, jid };
          yield* seen.fresh(attempts.stream(jobMethods.run, request, signal));
        }
        return;
      } catch (error) {
        await attempts.afterBreak(error);
        if (jid === undefined) attempts.refuseRepetition();
      }
    }
  }

  /**
   * Calls `jobs.follow`. If the master stops, the job is followed on the next master. Updates that
   * the caller already has are skipped.
   */
  async *follow(
    parameters: JobParameters,
    signal?: AbortSignal,
  ): AsyncGenerator<unknown, void, void> {
    const name = `jobs.follow (jid ${parameters.jid})`;
    const attempts = new Attempts(this.#source, name, { isHarmless: true });
    const seen = new SeenUpdates();
    yield* attempts.settleStream(() =>
      seen.fresh(attempts.stream(jobMethods.follow, parameters, signal)),
    );
  }

  /**
   * Calls `jobs.batch`. If the master stops, the minions that have not received the job form a new
   * batch with the same job id.
   */
  async *batch(
    parameters: JobParameters,
    signal?: AbortSignal,
  ): AsyncGenerator<unknown, void, void> {
    const jid = await this.#jidOf(parameters, signal);
    const name = `jobs.batch${jid === undefined ? '' : ` (jid ${jid})`}`;
    const attempts = new Attempts(this.#source, name, { isJob: true });
    const seen = new SeenUpdates();
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
          for await (const update of this.#follow(attempts, jid, seen, signal)) {
            yield update;
            failed ??= failureOf(update);
          }
          if (parameters.failHard && failed !== undefined) {
            yield { type: 'ended', failed, left: left ?? [] };
            return;
          }
          seen.expectAnother();
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
        for await (const item of seen.fresh(attempts.stream(jobMethods.batch, request, signal))) {
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

  /**
   * Calls `run` of a runner or wheel function. If its master stops, returns the result from the job
   * cache on the next master.
   */
  async runFunction(method: NamedMethod, parameters: JobParameters): Promise<unknown> {
    return this.#callFunction(method, parameters, ({ jid, returns }) => {
      const [kept] = returns;
      const stored = kept?.return;
      if (kept === undefined || typeof stored !== 'object' || stored === null) return undefined;
      const {
        fun,
        return: value,
        success,
      } = Object.fromEntries(stored instanceof Map ? stored : Object.entries(stored));
      // For some functions, only the caller may read the result. A master does not store these
      // results.
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

  /**
   * Calls `start` of a runner or wheel function, and returns its job id and the tag of its events.
   */
  async startFunction(method: NamedMethod, parameters: JobParameters): Promise<unknown> {
    const kind = method.name.startsWith('wheel') ? 'wheel' : 'run';
    return this.#callFunction(method, parameters, ({ jid }) => ({
      jid,
      tag: `salt/${kind}/${jid}`,
    }));
  }

  /**
   * Calls a runner or wheel function. If the master stops during the call, looks up the call in the
   * list of jobs of the next master.
   * @throws RemoteError ERR_OUTCOME_UNKNOWN if the function may have started, but the list does not
   * contain the call or this user cannot look it up
   */
  async #callFunction(
    method: NamedMethod,
    parameters: JobParameters,
    resultOf: (report: JobReport) => object | undefined,
  ): Promise<unknown> {
    const jid = parameters.jid ?? this.#nextJid();
    const attempts = new Attempts(this.#source, `${method.name} of ${jid}`, { isJob: true });
    const request = parameters.token === undefined ? { ...parameters, jid } : parameters;
    for (;;) {
      try {
        if (!attempts.wasSent) return await attempts.call(method, request);
        // Users without full rights can look up jobs, but not calls of runners and wheel functions.
        if ((await this.#source.master())?.ownJobs !== undefined) attempts.refuseRepetition();
        // The method's row in the RPC table guarantees this type.
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

  /**
   * Returns the job id for a call. Creates one if the call has none. Returns `undefined` if the
   * call has a token, or if the name of its user begins with `sudo_`. The job of such a call cannot
   * be looked up by a job id.
   * @throws the reason if no master was found in time
   */
  async #jidOf(
    { jid, user = '', token }: JobParameters,
    signal?: AbortSignal,
  ): Promise<string | undefined> {
    if (token !== undefined || user.startsWith('sudo_')) return undefined;
    if (jid !== undefined) return jid;
    const { ownJobs = '' } = (await this.#source.master(signal)) ?? {};
    return `${this.#nextJid()}${ownJobs}`;
  }

  /**
   * Returns the job as it is stored on the current master, or `undefined` if the job with this id
   * was never published.
   */
  async #keptJob(attempts: Attempts, jid: string | undefined): Promise<KeptJob | undefined> {
    if (!attempts.wasSent || jid === undefined) return undefined;
    try {
      for await (const item of attempts.stream(jobMethods.follow, { jid })) {
        const {
          minions = [],
          missing = [],
          skipped = 0,
          notSent = [],
          isNarrowed,
        } = item as Update;
        const narrowed = isNarrowed === true ? { isNarrowed } : {};
        return { receipt: { jid, minions, missing, skipped, ...narrowed }, notSent };
      }
    } catch (error) {
      // A denied lookup does not reveal whether the job was published.
      if (codeOf(error) === 'ERR_DENIED') throw attempts.outcomeUnknown(error);
      if (codeOf(error) !== 'ERR_JOB_UNKNOWN') throw error;
    }
    return undefined;
  }

  async *#follow(
    attempts: Attempts,
    jid: string,
    seen: SeenUpdates,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Update, void, void> {
    for await (const item of seen.fresh(attempts.stream(jobMethods.follow, { jid }, signal))) {
      yield settledUpdate(item as Update);
    }
  }
}

/** Updates that the caller has received for one job, from any master. Used to skip duplicates. */
class SeenUpdates {
  readonly #names = new Set<string>();
  /** Job id. `undefined` until an update contains it. */
  jid: string | undefined;

  async *fresh(items: AsyncIterable<unknown>): AsyncGenerator<unknown, void, void> {
    for await (const item of items) {
      const update = item as Update;
      if (update.type === 'published') this.jid ??= update.jid;
      const name = nameOf(update);
      if (name !== undefined && this.#names.has(name)) continue;
      if (name !== undefined) this.#names.add(name);
      yield item;
    }
  }

  /**
   * Makes {@link fresh} yield the next update of type `published`, which it would otherwise skip as
   * a duplicate. Call this method before the job is published to more minions.
   */
  expectAnother(): void {
    this.#names.delete('published');
  }
}

/**
 * Returns a name that is the same for all duplicates of an update, for example `return web1`.
 * Returns `undefined` for types of updates whose duplicates are not skipped.
 */
function nameOf({ type, minion, resource = '' }: Update): string | undefined {
  if (type === 'return') return `return ${minion} ${resource}`;
  return type === 'published' || type === 'gathered' ? type : undefined;
}

const knownReasons: ReadonlySet<string | undefined> = new Set(['key-not-accepted', 'not-sent']);

/**
 * Sets the reason for a missing return to `unknown`, because two causes are possible. Either the
 * job was not sent to the minion, or the return was lost.
 */
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

/**
 * Converts a percentage to a number of minions. A percentage refers to the minions that the target
 * matched at first. Returns other sizes unchanged.
 */
function absoluteSize(size: number | string = 1, minions: number): number | string {
  if (typeof size !== 'string' || !size.endsWith('%')) return size;
  return Math.max(1, Math.floor((Number(size.slice(0, -1)) / 100) * minions));
}
