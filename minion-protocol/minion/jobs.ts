/** Runs the functions that publications ask for, and knows which are under way [WIRE 13]. */

import { isWireMap, type WireMap, type WireValue } from '../payload.ts';

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

// The functions of the embedded minion: Salt's own names, with Salt's results, for what tests,
// the demo and small appliances need [salt/modules/test.py, grains.py, event.py, saltutil.py].

/** Arguments as they arrive: positional values, then keywords. */
export interface CallArguments {
  readonly args: readonly WireValue[];
  readonly kwargs: Readonly<Record<string, WireValue>>;
}

/** What a function may use of its minion. */
export interface FunctionContext {
  readonly id: string;
  readonly grains: WireMap;
  /** The pillar as it was last received. */
  readonly pillar: WireMap;
  /** The job that runs the function. */
  readonly jid: string;
  /** Fires an event on the master's bus; the master's policy decides whether it gets there. */
  readonly fire: (tag: string, data: WireMap) => Promise<string | undefined>;
  /** Jobs under way on this minion. */
  readonly running: () => readonly WireMap[];
  /** Ends a job under way. @returns whether there was one */
  readonly kill: (jid: string) => boolean;
  /** Ends with the job: killed, or the minion is being stopped. */
  readonly signal: AbortSignal;
  /** Names of all functions. */
  readonly functionNames: () => readonly string[];
}

/** A function that the master may call by name. What it throws becomes a failed return. */
export type MinionFunction = (
  call: CallArguments,
  context: FunctionContext,
) => WireValue | Promise<WireValue>;

const version = 'saltbridge minion';

/** The built-in functions by name. */
export const builtInFunctions: ReadonlyMap<string, MinionFunction> = new Map<
  string,
  MinionFunction
>([
  ['test.ping', () => true],
  ['test.true', () => true],
  ['test.false', () => false],
  ['test.version', () => version],
  ['test.echo', ({ args: [text], kwargs }) => text ?? kwargs.text ?? ''],
  ['test.arg', ({ args, kwargs }) => ({ args: [...args], kwargs: { ...kwargs } })],
  ['test.kwarg', ({ kwargs }) => ({ ...kwargs })],
  ['test.sleep', async ({ args: [seconds = 0] }, { signal }) => sleep(Number(seconds), signal)],
  [
    'test.exception',
    ({ args: [message = 'Test Exception'] }) => {
      throw new Error(String(message));
    },
  ],
  ['grains.items', (_call, { grains }) => grains],
  ['grains.ls', (_call, { grains }) => Object.keys(grains).sort()],
  ['grains.item', ({ args }, { grains }) => pick(grains, args)],
  [
    'grains.get',
    ({ args: [path = '', fallback = ''] }, { grains }) => find(grains, path) ?? fallback,
  ],
  ['pillar.items', (_call, { pillar }) => pillar],
  [
    'pillar.get',
    ({ args: [path = '', fallback = ''] }, { pillar }) => find(pillar, path) ?? fallback,
  ],
  [
    'event.send',
    async ({ args: [tag = ''], kwargs }, { fire }) => {
      const data = kwargs.data;
      await fire(String(tag), isWireMap(data) ? data : {});
      return true;
    },
  ],
  ['saltutil.running', (_call, { running, jid }) => running().filter((job) => job.jid !== jid)],
  [
    'saltutil.find_job',
    ({ args: [jid] }, { running }) => running().find((job) => job.jid === jid) ?? {},
  ],
  [
    'saltutil.kill_job',
    ({ args: [jid] }, { kill }) => (kill(String(jid)) ? `Signal 9 sent to job ${String(jid)}` : ''),
  ],
  ['sys.list_functions', (_call, { functionNames }) => [...functionNames()].sort()],
]);

async function sleep(seconds: number, signal: AbortSignal): Promise<boolean> {
  await new Promise<void>((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(new Error('the job was killed'));
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', stop);
      resolve();
    }, seconds * 1000);
    signal.addEventListener('abort', stop, { once: true });
  });
  return true;
}

function pick(map: WireMap, names: readonly WireValue[]): WireMap {
  return Object.fromEntries(names.map((name) => [String(name), map[String(name)] ?? '']));
}

/** A value by its path, `a:b:c`. */
function find(map: WireMap, path: WireValue): WireValue | undefined {
  let value: WireValue | undefined = map;
  for (const name of String(path).split(':')) {
    value = isWireMap(value) && Object.hasOwn(value, name) ? value[name] : undefined;
  }
  return value;
}
