import type { Logger } from 'pino';
import {
  type AuditRequester,
  type FunctionCall,
  type FunctionResult,
  MasterError,
  type Requested,
  type StartedCall,
} from '#master/api/index.ts';
import { type AuditTrail, auditOf } from '#master/audit/index.ts';
import { type EventBus, trimValues } from '#master/events/index.ts';
import { type JobCache, separateKeywords } from '#master/jobs/index.ts';
import { isJid, isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import { codeOf } from '#runtime';

export interface FunctionCallerOptions {
  readonly table: FunctionTable;
  readonly kind: 'runner' | 'wheel';
  /** What to use in place of a function that Salt has and `table` has not; `undefined`: Salt has none. */
  readonly insteadOf: (fun: string) => string | undefined;
  readonly bus: EventBus;
  readonly audit: AuditTrail;
  readonly nextJid: () => string;
  /** Keeps calls as jobs of the master's own; `undefined`: they are only told. */
  readonly cache: JobCache | undefined;
  /** The master's `id`: what kept jobs say they ran on. */
  readonly masterId: string;
  readonly closing: AbortSignal;
  readonly now: () => number;
  readonly log: Logger;
}

/**
 * Bytes of a call that is kept: `jobs.list_jobs` returns all of them, and would be kept with them.
 */
const maxKeptBytes = 65_536;

type FunctionOutcome = Pick<FunctionResult, 'return' | 'success' | 'retcode'>;

interface Ready {
  readonly call: BoundCall;
  readonly asked: AskedCall;
  readonly succeeds: MasterFunction['succeeds'];
  readonly jid: string;
  readonly tag: string;
  /** What both events have in common. */
  readonly data: WireMap;
  readonly user: string;
  readonly timeoutSeconds: number | undefined;
  readonly isConfidential: boolean;
  readonly by: AuditRequester | undefined;
  readonly end: CallEnd;
}

/** What a function says of its end. */
interface CallEnd {
  /** It goes on at another member of the cluster, which tells what comes of it. */
  isElsewhere: boolean;
  /** Done once its end was told. */
  readonly work: (() => Promise<void>)[];
}

/** How a call is run. */
interface RunOptions {
  /** Whether it is among the jobs. Default: it is. */
  readonly isKept?: boolean;
  /** It was begun at another member of the cluster, which told that. */
  readonly isResumed?: boolean;
}

/**
 * Runs functions of a closed table on the master and tells it: `salt/run/<jid>/new` and `…/ret`,
 * `salt/wheel/…` [WIRE 14.2; salt/client/mixins.py].
 */
export class FunctionCaller {
  readonly #options: FunctionCallerOptions;

  constructor(options: FunctionCallerOptions) {
    this.#options = options;
  }

  /**
   * Runs a function. One that fails is a result too.
   * @throws MasterError ERR_UNKNOWN_FUN, ERR_NOT_SERVED, ERR_ARGS; nothing was run then
   */
  async run(call: FunctionCall & Requested, options: RunOptions = {}): Promise<FunctionResult> {
    return this.#finish(await this.#prepare(call, options), options);
  }

  /** The same, and waits for nothing. @throws MasterError ERR_UNKNOWN_FUN, ERR_NOT_SERVED, ERR_ARGS */
  async start(call: FunctionCall & Requested, options: RunOptions = {}): Promise<StartedCall> {
    const ready = await this.#prepare(call, options);
    this.#finish(ready, options).catch((error: unknown) => {
      this.#options.log.error({ jid: ready.jid, err: error }, 'function was not finished');
    });
    return { jid: ready.jid, tag: ready.tag };
  }

  /** Whether there is a function that takes a keyword of this name. */
  takes(fun: string, name: string): boolean {
    const { table } = this.#options;
    return Object.hasOwn(table, fun) && table[fun]?.takes(name) === true;
  }

  /** Whether there is a function that has a parameter of this name. */
  declares(fun: string, name: string): boolean {
    const { table } = this.#options;
    return Object.hasOwn(table, fun) && table[fun]?.declares(name) === true;
  }

  /** What the functions are for, by name: one, those of a module, or all. */
  docs(prefix = ''): Record<string, string> {
    const texts: Record<string, string> = Object.create(null);
    for (const [name, { summary, signature }] of Object.entries(this.#options.table).sort()) {
      if (prefix !== '' && name !== prefix && !name.startsWith(`${prefix}.`)) continue;
      texts[name] = `${summary}\n\n${name}(${signature})`;
    }
    return texts;
  }

  async #prepare(
    { fun, arg: values = [], kwarg, ...call }: FunctionCall & Requested,
    { isResumed = false }: RunOptions,
  ): Promise<Ready> {
    const { table, kind, nextJid } = this.#options;
    const found = Object.hasOwn(table, fun) ? table[fun] : undefined;
    if (found === undefined) throw this.#unknown(fun);
    if (call.jid !== undefined && !isJid(call.jid)) {
      throw new MasterError('ERR_ARGS', 'jid is not a job id; expected 20 digits');
    }
    const { arg, kwarg: given } = separateKeywords(values, kwarg);
    const taken = call.dropUnknown ? pick(given, found.takes) : given;
    const bound = found.bind(arg, taken);
    const jid = call.jid ?? nextJid();
    const tag = `salt/${kind === 'runner' ? 'run' : 'wheel'}/${jid}`;
    const user = call.user ?? 'saltbridge';
    const keywords = Object.keys(taken).length > 0 ? [{ ...taken }] : [];
    const { isConfidential, succeeds } = found;
    // protection: told-arguments
    const args = isConfidential ? [] : [...arg, ...keywords];
    const data = { fun: `${kind}.${fun}`, jid, user, fun_args: args };
    if (!isResumed) {
      this.#options.bus.fire(`${tag}/new`, kind === 'wheel' ? { ...data, tag } : data);
    }
    const { timeoutSeconds, by } = call;
    const end = { isElsewhere: false, work: [] };
    const asked = { fun, arg, kwarg: taken };
    return {
      ...{ call: bound, asked, succeeds, jid, tag, data, user },
      ...{ timeoutSeconds, isConfidential, by, end },
    };
  }

  #unknown(fun: string): MasterError {
    const { kind, insteadOf } = this.#options;
    const instead = insteadOf(fun);
    if (instead === undefined) {
      return new MasterError('ERR_UNKNOWN_FUN', `'${fun}' is not available.`);
    }
    const reason = `${fun} is a ${kind} function of Salt's that this master does not serve`;
    return new MasterError('ERR_NOT_SERVED', `${reason}: ${instead}`);
  }

  async #finish(ready: Ready, { isKept = true }: RunOptions): Promise<FunctionResult> {
    const outcome = await this.#call(ready);
    const { jid, data, end } = ready;
    const result = { jid, fun: String(data.fun), ...outcome };
    if (end.isElsewhere) return result;
    await this.#tell(ready, outcome);
    if (isKept) await this.#tryToKeep(ready, result);
    for (const work of end.work) await work();
    return result;
  }

  async #tell(ready: Ready, outcome: FunctionOutcome): Promise<void> {
    const { tag, data } = ready;
    const told = { ...outcome, return: toldOf(ready, outcome.return) };
    const event = this.#options.kind === 'wheel' ? { ...data, tag, ...told } : { ...data, ...told };
    this.#options.bus.fire(`${tag}/ret`, event);
    await this.#tellAudit(ready, outcome.success);
  }

  async #tellAudit({ jid, data, user, by }: Ready, isDone: boolean): Promise<void> {
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
    const tell = (suffix: string, event: WireMap): void => bus.fire(`${tag}/${suffix}`, event);
    try {
      const goesOnElsewhere = (): void => {
        end.isElsewhere = true;
      };
      const atEnd = (work: () => Promise<void>): void => void end.work.push(work);
      const { asked } = ready;
      const value = await call({
        ...{ jid, user, by, asked, timeoutSeconds, tell, closing },
        goesOnElsewhere,
        atEnd,
      });
      return { return: value, success: succeeds(value) };
    } catch (error) {
      // Ours to look into, unless it tells what was wrong with the call.
      if (codeOf(error) === undefined) {
        log.error({ jid, fun: data.fun, err: error }, 'function failed');
      }
      const reason = error instanceof Error ? error.message : String(error);
      const text = `Exception occurred in ${String(data.fun).replace('.', ' ')}: ${reason}`;
      return { return: text, success: false, retcode: 1 };
    }
  }

  /** What was done stays done where it cannot be kept. */
  async #tryToKeep(ready: Ready, result: FunctionResult): Promise<void> {
    try {
      await this.#keep(ready, result);
    } catch (error) {
      this.#options.log.error({ jid: ready.jid, err: error }, 'function is not in the job list');
    }
  }

  /** As Salt keeps it: a job of the master's own, which returned all of the event. */
  async #keep(ready: Ready, result: FunctionResult): Promise<void> {
    const { jid, data, user } = ready;
    const { cache, masterId, now } = this.#options;
    if (cache === undefined) return;
    const fun = String(data.fun);
    await cache.add({
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
    await cache.addReturn(jid, {
      minion: masterId,
      fun,
      return: trimValues(
        { ...data, return: toldOf(ready, result.return), success: result.success },
        maxKeptBytes,
      ),
      retcode: result.retcode ?? 0,
      success: result.success,
      receivedAt: now(),
    });
  }
}

/** What others than the caller may know of a returned value. */
function toldOf({ isConfidential }: Ready, value: WireValue): WireValue {
  // protection: told-values
  return isConfidential ? null : value;
}

function pick(
  kwarg: Readonly<Record<string, WireValue>>,
  takes: (name: string) => boolean,
): Record<string, WireValue> {
  return Object.fromEntries(Object.entries(kwarg).filter(([name]) => takes(name)));
}

/** `{outputter, data}`: the way in which a function asks for an outputter. */
export function withOutputter(outputter: string | undefined, data: WireValue): WireValue {
  return outputter === undefined ? data : { outputter, data };
}

/** A call, as it was asked for. */
interface AskedCall {
  readonly fun: string;
  readonly arg: readonly WireValue[];
  readonly kwarg: Readonly<Record<string, WireValue>>;
}

/** What a function may know of the call that it serves. */
export interface CallContext {
  readonly asked: AskedCall;
  readonly jid: string;
  /** Who asked: an operator's name, or a minion's id. */
  readonly user: string;
  /** Who asked, and what permitted it, for the audit log; `undefined`: the local interface. */
  readonly by: AuditRequester | undefined;
  /** How long minions have to answer; `undefined`: the master's own. */
  readonly timeoutSeconds: number | undefined;
  /** Fires `<prefix>/<jid>/<suffix>`, for instance to tell how far it is. */
  readonly tell: (suffix: string, data: WireMap) => void;
  /** The master is being closed. */
  readonly closing: AbortSignal;
  /** Another member of the cluster goes on with it: what it returns is told to the caller alone. */
  readonly goesOnElsewhere: () => void;
  /** Calls this when its end was told, and is among the jobs. */
  readonly atEnd: (work: () => Promise<void>) => void;
}

/** What a function says of arguments that it does not take. */
export function refused(reason: string): MasterError {
  return new MasterError('ERR_ARGS', reason);
}

/** For functions that a right to would be one to others. @throws MasterError ERR_ARGS for users */
export function requireLocalCaller({ by }: Pick<CallContext, 'by'>): void {
  // protection: local-functions-of-users
  if (by !== undefined) throw refused('it is for the local interface alone');
}

/** A runner or wheel function as its author writes it. */
export interface Definition<P extends Parameters> {
  /** One sentence for whoever asks for documentation. */
  readonly summary: string;
  readonly parameters: P;
  /** Keywords beyond the parameters. Default: refused. */
  readonly takesMore?: true;
  /** Positional values beyond the parameters. Default: refused. */
  readonly takesRest?: true;
  /**
   * What it is given and what it returns are for the caller alone: not in events, in jobs that are
   * kept, or in the audit log. Default: they are told.
   */
  readonly isConfidential?: true;
  /** Whether what it returned is a success. Default: it is. */
  readonly succeeds?: (value: WireValue) => boolean;
  readonly call: (
    values: ValuesOf<P>,
    context: CallContext,
    more: WireMap,
    rest: readonly WireValue[],
  ) => Promise<WireValue> | WireValue;
}

/** A runner or wheel function. */
export interface MasterFunction {
  readonly summary: string;
  /** For instance `jid, returned=True`. */
  readonly signature: string;
  /** Whether it takes a keyword of this name. */
  readonly takes: (name: string) => boolean;
  /** Whether it has a parameter of this name, and does not only take whatever it is given. */
  readonly declares: (name: string) => boolean;
  /** See {@link Definition.isConfidential}. */
  readonly isConfidential: boolean;
  /** See {@link Definition.succeeds}. */
  readonly succeeds: (value: WireValue) => boolean;
  /** Checks the arguments. @throws MasterError ERR_ARGS */
  readonly bind: (arg: readonly WireValue[], kwarg: Readonly<WireMap>) => BoundCall;
}

/** A function with arguments that fit. */
type BoundCall = (context: CallContext) => Promise<WireValue>;

/** Functions by name: `module.function`. */
export type FunctionTable = Readonly<Record<string, MasterFunction>>;

/** Makes a function that can be called with whatever somebody typed. */
export function masterFunction<const P extends Parameters>(
  definition: Definition<P>,
): MasterFunction {
  const { parameters, takesMore = false, takesRest = false, call, summary } = definition;
  const { isConfidential = false, succeeds = () => true } = definition;
  return {
    summary,
    signature: Object.entries(parameters).map(describe).join(', '),
    isConfidential,
    succeeds,
    takes: (name) => takesMore || Object.hasOwn(parameters, name),
    declares: (name) => Object.hasOwn(parameters, name),
    bind: (arg, kwarg) => {
      const count = takesRest ? Object.keys(parameters).length : arg.length;
      const rest = arg.slice(count);
      const { values, more } = bindArguments(parameters, arg.slice(0, count), kwarg, takesMore);
      // Every parameter has been parsed under its name.
      return async (context) => call(values as ValuesOf<P>, context, more, rest);
    },
  };
}

function describe([name, { isRequired, fallback }]: [string, Parameter<unknown>]): string {
  return isRequired || fallback === undefined ? name : `${name}=${JSON.stringify(fallback)}`;
}

function bindArguments(
  parameters: Parameters,
  arg: readonly WireValue[],
  kwarg: Readonly<WireMap>,
  takesMore: boolean,
): { readonly values: Record<string, unknown>; readonly more: WireMap } {
  const names = Object.keys(parameters);
  if (arg.length > names.length) {
    throw wrong(`${arg.length} positional arguments; at most ${names.length} are taken`);
  }
  const given = new Map(arg.map((value, index) => [names[index] ?? '', value]));
  const more: WireMap = Object.create(null);
  for (const [name, value] of Object.entries(kwarg)) {
    if (given.has(name)) throw wrong(`${name} is given twice`);
    if (Object.hasOwn(parameters, name)) given.set(name, value);
    else if (takesMore) more[name] = value;
    else throw wrong(`${name} is no argument of it`);
  }
  const values: Record<string, unknown> = Object.create(null);
  for (const [name, parameter] of Object.entries(parameters)) {
    values[name] = readArgument(name, parameter, given.get(name));
  }
  return { values, more };
}

function readArgument(name: string, parameter: Parameter<unknown>, given?: WireValue): unknown {
  const isGiven = given !== undefined && (given !== null || parameter.isRequired);
  if (!isGiven) {
    if (parameter.isRequired) throw wrong(`${name} is missing; expected ${parameter.expected}`);
    return parameter.fallback;
  }
  const value = parameter.parse(given);
  if (value === undefined) throw wrong(`${name} is not ${parameter.expected}`);
  return value;
}

function wrong(reason: string): MasterError {
  return new MasterError('ERR_ARGS', reason);
}

// Parameters of runners and wheel functions: named, typed, with defaults.

/** One parameter. Its place in the record of parameters is its place among positional ones. */
export interface Parameter<T> {
  /** What is expected, in words. */
  readonly expected: string;
  readonly isRequired: boolean;
  /** The value in its final form; `undefined` when it is not one. */
  readonly parse: (value: WireValue) => T | undefined;
  /** Used where nothing is given. */
  readonly fallback: T | undefined;
}

/** The parameters of a function by name, in their order. */
export type Parameters = Readonly<Record<string, Parameter<unknown>>>;

/** The values of parameters. */
type ValuesOf<P extends Parameters> = {
  readonly [Name in keyof P]: P[Name] extends Parameter<infer T> ? T : never;
};

/** How a value is read. */
export interface Kind<T> {
  readonly expected: string;
  readonly parse: (value: WireValue) => T | undefined;
}

/** Text; numbers count, because a word of a command line may look like one. */
export const text: Kind<string> = {
  expected: 'text',
  parse: (value) => {
    if (typeof value === 'string') return value;
    return typeof value === 'number' || typeof value === 'bigint' ? String(value) : undefined;
  },
};

/** True or false. */
export const flag: Kind<boolean> = {
  expected: 'True or False',
  parse: (value) => (typeof value === 'boolean' ? value : undefined),
};

/** A whole number from 0 on. */
export const count: Kind<number> = {
  expected: 'a whole number',
  parse: (value) =>
    typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined,
};

/** Seconds. */
export const seconds: Kind<number> = {
  expected: 'a number of seconds',
  parse: (value) => (typeof value === 'number' && value >= 0 ? value : undefined),
};

/** Names: a list of texts, or one text with commas. */
export const names: Kind<readonly string[]> = {
  expected: 'a list of names, or names with commas between them',
  parse: (value) => {
    if (typeof value === 'string') return value.split(',').map((name) => name.trim());
    const isList = Array.isArray(value) && value.every((item) => typeof item === 'string');
    return isList ? value : undefined;
  },
};

/** Text, or a list of texts. */
export const target: Kind<string | readonly string[]> = {
  expected: 'a target, as text or as a list of ids',
  parse: (value) => {
    const isList = Array.isArray(value) && value.every((item) => typeof item === 'string');
    return isList ? value : text.parse(value);
  },
};

/** A map with text keys. */
export const map: Kind<WireMap> = {
  expected: 'a map',
  parse: (value) => (isWireMap(value) ? value : undefined),
};

/** Anything. */
export const anything: Kind<WireValue> = { expected: 'a value', parse: (value) => value };

/** It must be given. */
export function required<T>(kind: Kind<T>): Parameter<T> {
  return { ...kind, isRequired: true, fallback: undefined };
}

/** It has a default, and `None` means that. */
export function optional<T>(kind: Kind<T>, fallback: NoInfer<T>): Parameter<T>;
export function optional<T>(kind: Kind<T>): Parameter<T | undefined>;
export function optional<T>(kind: Kind<T>, fallback?: T): Parameter<T | undefined> {
  return { ...kind, isRequired: false, fallback };
}

/** Salt has it, and it changes nothing here. */
export const ignored: Parameter<WireValue | undefined> = optional(anything);
