import type { Logger } from 'pino';
import { isReaction } from '#config';
import { isJid, type WireMap, type WireValue } from '#minion-protocol';
import { codeOf, errorMessage } from '#runtime';
import {
  type AuditRequester,
  type CallOrigin,
  type FunctionCall,
  type FunctionResult,
  MasterError,
  type RequesterJobs,
  type RequireWheel,
  type StartedCall,
} from '../api/index.ts';
import { type AuditTrail, auditOf } from '../audit/index.ts';
import type { MasterContext } from '../context/index.ts';
import { type EventBus, trimValues } from '../events/index.ts';
import { type JobCache, separateKeywords } from '../jobs/index.ts';
import type { AskedCall, BoundCall, MasterFunction } from './master-function.ts';
import { RunningCalls } from './running-calls.ts';

export interface FunctionCallerOptions extends Pick<MasterContext, 'closing' | 'nextJid' | 'now'> {
  /** Functions by name. Extensions add functions until the master serves minions. */
  readonly table: ReadonlyMap<string, MasterFunction>;
  readonly kind: 'runner' | 'wheel';
  /**
   * Returns advice for callers of a Salt function that is not in `table`, for the error message.
   * Returns `undefined` if there is none.
   */
  readonly insteadOf: (fun: string) => string | undefined;
  readonly bus: EventBus;
  readonly audit: AuditTrail;
  /**
   * Storage in which calls are recorded as jobs of the master. If it is `undefined`, calls are not
   * recorded and only emit events.
   */
  readonly cache: JobCache | undefined;
  /** `id` of the master. It is recorded as the minion of stored calls. */
  readonly masterId: string;
  readonly log: Logger;
}

/**
 * Maximum size of a stored call, in bytes. Without a limit, each result of `jobs.list_jobs` would
 * store all jobs again.
 */
const maxKeptBytes = 65_536;

type FunctionOutcome = Pick<FunctionResult, 'return' | 'success' | 'retcode'>;

interface Ready {
  readonly call: BoundCall;
  readonly asked: AskedCall;
  readonly succeeds: MasterFunction['succeeds'];
  readonly jid: string;
  readonly tag: string;
  /** Fields that the start event (`new`) and the end event (`ret`) of the call have in common. */
  readonly data: WireMap;
  readonly user: string;
  readonly timeoutSeconds: number | undefined;
  readonly isConfidential: boolean;
  readonly by: AuditRequester | undefined;
  readonly requesterJobs: RequesterJobs | undefined;
  readonly requireWheel: RequireWheel | undefined;
  readonly end: CallEnd;
  /**
   * Stops counting the call towards the limit on running calls. Must be called once, when the call
   * has ended.
   */
  readonly leave: () => void;
}

/**
 * Instructions for the end of a call: whether another member reports the result, and actions that
 * run afterwards. The called function sets them through its {@link CallContext}.
 */
interface CallEnd {
  /** Whether another member of the cluster continues the call and will report its result. */
  isElsewhere: boolean;
  /**
   * Actions that run after the result of the call has been reported and stored. They do not run if
   * {@link isElsewhere} is true.
   */
  readonly work: (() => Promise<void>)[];
}

/** Options of a call. */
interface RunOptions {
  /** Whether the call is stored as a job. Default: true. */
  readonly isKept?: boolean;
  /** Whether another member of the cluster started the call and emitted its `new` event. */
  readonly isResumed?: boolean;
}

/**
 * Runs functions of a fixed table on the master. It emits `salt/run/<jid>/new` and `…/ret` for
 * runners, or `salt/wheel/…` for wheel functions [WIRE 14.2; salt/client/mixins.py].
 */
export class FunctionCaller {
  readonly #options: FunctionCallerOptions;
  /** Data of the `new` event of each running call, by jid. */
  readonly #running = new Map<string, WireMap>();
  readonly #calls = new RunningCalls();

  constructor(options: FunctionCallerOptions) {
    this.#options = options;
  }

  /**
   * Runs a function and returns its result, which may be a failure.
   * @throws MasterError ERR_UNKNOWN_FUN, ERR_NOT_SERVED, ERR_ARGS; LimitExceeded. In these cases,
   * the function was not run
   */
  async run(call: FunctionCall & CallOrigin, options: RunOptions = {}): Promise<FunctionResult> {
    return this.#finish(await this.#prepare(call, options), options);
  }

  /**
   * Starts a function without waiting for its result.
   * @throws MasterError ERR_UNKNOWN_FUN, ERR_NOT_SERVED, ERR_ARGS
   */
  async start(call: FunctionCall & CallOrigin, options: RunOptions = {}): Promise<StartedCall> {
    const ready = await this.#prepare(call, options);
    this.#finish(ready, options).catch((error: unknown) => {
      this.#options.log.error(
        { jid: ready.jid, err: error },
        'cannot store the result of a runner or wheel function',
      );
    });
    return { jid: ready.jid, tag: ready.tag };
  }

  /** Returns the running calls, each with `fun`, `jid`, `user` and `fun_args`. */
  running(): readonly WireMap[] {
    return [...this.#running.values()];
  }

  /**
   * Omits the keyword arguments that the function does not accept, if the call asks for this. The
   * function has none if it does not exist.
   * @throws MasterError ERR_ARGS
   */
  withoutUnknown<Call extends FunctionCall>(call: Call): Call {
    if (call.dropUnknown !== true) return call;
    const { arg, kwarg } = separateKeywords(call.arg ?? [], call.kwarg);
    const known = Object.entries(kwarg).filter(([name]) => this.takes(call.fun, name));
    return { ...call, arg, kwarg: Object.fromEntries(known), dropUnknown: false };
  }

  /** Whether the function exists and accepts a keyword argument of this name. */
  takes(fun: string, name: string): boolean {
    return this.#options.table.get(fun)?.takes(name) === true;
  }

  /** Whether the function exists and declares a parameter of this name. */
  declares(fun: string, name: string): boolean {
    return this.#options.table.get(fun)?.declares(name) === true;
  }

  /**
   * Returns the documentation of functions by name: of one function, of the functions of a module,
   * or of all functions.
   */
  docs(prefix = ''): Record<string, string> {
    const texts: Record<string, string> = Object.create(null);
    const all = [...this.#options.table].sort(([one], [other]) => (one < other ? -1 : 1));
    for (const [name, { summary, signature }] of all) {
      if (prefix !== '' && name !== prefix && !name.startsWith(`${prefix}.`)) continue;
      texts[name] = `${summary}\n\n${name}(${signature})`;
    }
    return texts;
  }

  async #prepare(
    asked: FunctionCall & CallOrigin,
    { isResumed = false }: RunOptions,
  ): Promise<Ready> {
    const { table, kind, nextJid, cache } = this.#options;
    const found = table.get(asked.fun);
    if (found === undefined) throw this.#unknown(asked.fun);
    if (asked.jid !== undefined && !isJid(asked.jid)) {
      throw new MasterError('ERR_ARGS', '`jid` is not a job id: it must have 20 digits');
    }
    if (!isResumed) cache?.requirePlace(asked.by);
    const { fun, arg: values = [], kwarg: given, ...call } = this.withoutUnknown(asked);
    const { arg, kwarg } = separateKeywords(values, given);
    const bound = found.bind(arg, kwarg);
    const leave = isResumed ? () => {} : this.#calls.enter(call.by, [...arg, { ...kwarg }]);
    const jid = call.jid ?? nextJid();
    const tag = `salt/${kind === 'runner' ? 'run' : 'wheel'}/${jid}`;
    const user = call.user ?? 'saltbridge';
    const keywords = Object.keys(kwarg).length > 0 ? [{ ...kwarg }] : [];
    const { isConfidential, succeeds } = found;
    const args = isConfidential ? [] : [...arg, ...keywords];
    const data = { fun: `${kind}.${fun}`, jid, user, fun_args: args };
    if (!isResumed) {
      const event = kind === 'wheel' ? { ...data, tag } : data;
      this.#options.bus.fire(`${tag}/new`, event, originOf(call.by));
    }
    const { timeoutSeconds, by, requesterJobs, requireWheel } = call;
    const end = { isElsewhere: false, work: [] };
    return {
      ...{ call: bound, asked: { fun, arg, kwarg }, succeeds, jid, tag, data, user },
      ...{ timeoutSeconds, isConfidential, by, requesterJobs, requireWheel, end, leave },
    };
  }

  #unknown(fun: string): MasterError {
    const { kind, insteadOf } = this.#options;
    const instead = insteadOf(fun);
    if (instead === undefined) {
      return new MasterError('ERR_UNKNOWN_FUN', `'${fun}' is not available.`);
    }
    const reason = `${fun} is a ${kind} function of Salt that this master does not serve`;
    return new MasterError('ERR_NOT_SERVED', `${reason}: ${instead}`);
  }

  async #finish(ready: Ready, options: RunOptions): Promise<FunctionResult> {
    try {
      return await this.#complete(ready, options);
    } finally {
      ready.leave();
    }
  }

  async #complete(ready: Ready, { isKept = true }: RunOptions): Promise<FunctionResult> {
    const { jid, data, end } = ready;
    this.#running.set(jid, data);
    const outcome = await this.#call(ready).finally(() => this.#running.delete(jid));
    const result = { jid, fun: String(data.fun), ...outcome };
    if (end.isElsewhere) return result;
    await this.#report(ready, outcome);
    if (isKept) await this.#tryToKeep(ready, result);
    for (const work of end.work) await work();
    return result;
  }

  async #report(ready: Ready, outcome: FunctionOutcome): Promise<void> {
    const { tag, data } = ready;
    const told = { ...outcome, return: reportedValue(ready, outcome.return) };
    const event = this.#options.kind === 'wheel' ? { ...data, tag, ...told } : { ...data, ...told };
    this.#options.bus.fire(`${tag}/ret`, event, originOf(ready.by));
    await this.#writeAudit(ready, outcome.success);
  }

  async #writeAudit({ jid, data, user, by }: Ready, isDone: boolean): Promise<void> {
    const { audit } = this.#options;
    const args = data.fun_args;
    const hasArguments = Array.isArray(args) && args.length > 0;
    audit.append({
      ...auditOf(by, user),
      action: `${this.#options.kind}.run`,
      what: String(data.fun),
      ...(hasArguments ? { arguments: await audit.digest(args) } : {}),
      outcome: isDone ? 'done' : 'failed',
      jid,
    });
  }

  async #call(ready: Ready): Promise<FunctionOutcome> {
    const { call, succeeds, jid, tag, user, data, timeoutSeconds, by, end } = ready;
    const { bus, closing, log } = this.#options;
    const emit = (suffix: string, event: WireMap): void => bus.fire(`${tag}/${suffix}`, event);
    try {
      const continueElsewhere = (): void => {
        end.isElsewhere = true;
      };
      const atEnd = (work: () => Promise<void>): void => void end.work.push(work);
      const { asked, requesterJobs, requireWheel } = ready;
      const value = await call({
        ...{ jid, user, by, requesterJobs, requireWheel, asked, timeoutSeconds, emit, closing },
        continueElsewhere,
        atEnd,
      });
      return { return: value, success: succeeds(value) };
    } catch (error) {
      // An error with a code means that the call was invalid. Any other error is a defect and is
      // therefore logged.
      if (codeOf(error) === undefined) {
        log.error({ jid, fun: data.fun, err: error }, 'function failed');
      }
      const reason = errorMessage(error);
      const text = `Exception occurred in ${String(data.fun).replace('.', ' ')}: ${reason}`;
      return { return: text, success: false, retcode: 1 };
    }
  }

  /** Stores the call as a job. A failure is only logged, because the function has already run. */
  async #tryToKeep(ready: Ready, result: FunctionResult): Promise<void> {
    try {
      await this.#keep(ready, result);
    } catch (error) {
      this.#options.log.error(
        { jid: ready.jid, err: error },
        'cannot store the call of a runner or wheel function in the job list',
      );
    }
  }

  /**
   * Stores the call as a job of the master, as Salt does. The return of the job is the content of
   * the `ret` event.
   */
  async #keep(ready: Ready, result: FunctionResult): Promise<void> {
    const { jid, data, user, by } = ready;
    const { cache, masterId, now } = this.#options;
    if (cache === undefined) return;
    const fun = String(data.fun);
    const { bytes } = await cache.add({
      jid,
      fun,
      arg: [],
      tgt: masterId,
      tgtType: 'list',
      user,
      minions: [],
      missing: [],
      publishedAt: now(),
      selfMade: false,
    });
    const kept = {
      minion: masterId,
      fun,
      return: trimValues(
        { ...data, return: reportedValue(ready, result.return), success: result.success },
        maxKeptBytes,
      ),
      retcode: result.retcode ?? 0,
      success: result.success,
      receivedAt: now(),
    };
    await cache.addReturn(jid, kept, by);
    cache.stored.note(by, bytes);
  }
}

/** Returns the origin of the events of a call. */
function originOf(by: AuditRequester | undefined): 'master' | 'reaction' {
  return by !== undefined && isReaction(by.who) ? 'reaction' : 'master';
}

/**
 * Returns the value to use in events and stored jobs: `null` for a confidential call, otherwise
 * `value`.
 */
function reportedValue({ isConfidential }: Ready, value: WireValue): WireValue {
  return isConfidential ? null : value;
}
