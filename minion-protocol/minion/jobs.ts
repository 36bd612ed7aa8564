/** Runs the functions that publications ask for, and knows which are under way [WIRE 13]. */

import { isWireMap, type WireMap, type WireValue } from '../payload.ts';
import type { CallArguments, FunctionContext, MinionFunction } from './functions.ts';

/** A job as it was published to this minion. */
export interface MinionJob {
  readonly jid: string;
  readonly fun: string;
  readonly arg: readonly WireValue[];
  /** The whole publication, for `saltutil.running`. */
  readonly load: WireMap;
}

/** What goes into the return besides the job's own fields. */
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

/** What the jobs share. */
export type JobEnvironment = Omit<
  FunctionContext,
  'jid' | 'running' | 'kill' | 'signal' | 'functionNames'
>;

/** Salt remembers as many, and drops a publication that it has seen (`minion_jid_queue_hwm`). */
const rememberedJids = 100;

/** Functions whose returns are shown as states, where an embedder has them [salt/modules/state.py]. */
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

  /** Whether this jid is new; it is not the next time. */
  isNew(jid: string): boolean {
    if (this.#seen.includes(jid)) return false;
    this.#seen.push(jid);
    if (this.#seen.length > rememberedJids) this.#seen.shift();
    return true;
  }

  /** Runs one job to its end. Never rejects: a failure is a result. */
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
      const message = error instanceof Error ? error.message : String(error);
      return failure(`The minion function caused an exception: ${message}`);
    } finally {
      this.#running.delete(job.jid);
    }
  }

  /** Ends a job under way. */
  kill(jid: string): boolean {
    const running = this.#running.get(jid);
    running?.abort.abort();
    return running !== undefined;
  }

  /** Ends them all. */
  stop(): void {
    for (const { abort } of this.#running.values()) abort.abort();
  }
}

function failure(text: string): JobResult {
  return { return: text, retcode: 1, success: false, out: 'nested' };
}

/** Keywords are the last value, a map with the mark `__kwarg__` [WIRE 11.5]. */
function splitArguments(arg: readonly WireValue[]): CallArguments {
  const last = arg.at(-1);
  if (!isWireMap(last) || last.__kwarg__ !== true) return { args: arg, kwargs: {} };
  const { __kwarg__: _mark, ...kwargs } = last;
  return { args: arg.slice(0, -1), kwargs };
}
