import { errorMessage } from '#runtime';
/** Runs the functions that publications request and tracks the running jobs [WIRE 13]. */

import { isWireMap, type WireMap, type WireValue } from '../wire-value.ts';
import type { CallArguments, FunctionContext, MinionFunction } from './functions.ts';

/** A job that was published to this minion. */
export interface MinionJob {
  readonly jid: string;
  readonly fun: string;
  readonly arg: readonly WireValue[];
  /** Load of the publication, for `saltutil.running`. */
  readonly load: WireMap;
}

/** Fields of a return that describe the result. */
export interface JobResult {
  readonly return: WireValue;
  readonly retcode: number;
  readonly success: boolean;
  readonly out?: string;
}

interface Running {
  readonly job: MinionJob;
  readonly abort: AbortController;
}

/** Properties of a {@link FunctionContext} that are the same for all jobs. */
export type JobEnvironment = Omit<
  FunctionContext,
  'jid' | 'running' | 'kill' | 'signal' | 'functionNames'
>;

/**
 * Number of recent job ids that the minion remembers. Like Salt, the minion ignores a publication
 * that it has already received (`minion_jid_queue_hwm`).
 */
const rememberedJids = 100;

/**
 * State functions, whose results Salt displays with the outputter `highstate`
 * [salt/modules/state.py]. They are not built in; the program that embeds the minion can provide
 * them.
 */
const states: ReadonlySet<string> = new Set(
  ['apply', 'highstate', 'pkg', 'single', 'sls', 'sls_id', 'template', 'template_str', 'top'].map(
    (name) => `state.${name}`,
  ),
);

export class MinionJobs {
  readonly #functions: ReadonlyMap<string, MinionFunction>;
  readonly #running = new Map<string, Running>();
  readonly #seen: string[] = [];

  constructor(functions: ReadonlyMap<string, MinionFunction>) {
    this.#functions = functions;
  }

  /** Returns whether the minion sees this job id for the first time, and remembers the id. */
  isNew(jid: string): boolean {
    if (this.#seen.includes(jid)) return false;
    this.#seen.push(jid);
    if (this.#seen.length > rememberedJids) this.#seen.shift();
    return true;
  }

  /** Runs one job to its end. Never rejects: if the job fails, the result describes the failure. */
  async run(job: MinionJob, environment: JobEnvironment): Promise<JobResult> {
    const call = this.#functions.get(job.fun);
    if (call === undefined) return failure(`'${job.fun}' is not available.`);
    const abort = new AbortController();
    this.#running.set(job.jid, { job, abort });
    try {
      const value = await call(splitArguments(job.arg), {
        ...environment,
        jid: job.jid,
        signal: abort.signal,
        running: () => [...this.#running.values()].map(({ job: { load } }) => ({ ...load })),
        kill: (jid) => this.kill(jid),
        functionNames: () => [...this.#functions.keys()],
      });
      const out = states.has(job.fun) ? { out: 'highstate' } : {};
      return { return: value, retcode: 0, success: true, ...out };
    } catch (error) {
      const message = errorMessage(error);
      return failure(`The minion function caused an exception: ${message}`);
    } finally {
      this.#running.delete(job.jid);
    }
  }

  /** Stops a running job. Returns whether it was running. */
  kill(jid: string): boolean {
    const running = this.#running.get(jid);
    running?.abort.abort();
    return running !== undefined;
  }

  /** Stops all running jobs. */
  stop(): void {
    for (const { abort } of this.#running.values()) abort.abort();
  }
}

function failure(text: string): JobResult {
  return { return: text, retcode: 1, success: false, out: 'nested' };
}

/**
 * Splits the arguments of a publication. Keyword arguments are the last value, a map marked with
 * `__kwarg__` [WIRE 11.5].
 */
function splitArguments(arg: readonly WireValue[]): CallArguments {
  const last = arg.at(-1);
  if (!isWireMap(last) || last.__kwarg__ !== true) return { args: arg, kwargs: {} };
  const { __kwarg__: _mark, ...kwargs } = last;
  return { args: arg.slice(0, -1), kwargs };
}
