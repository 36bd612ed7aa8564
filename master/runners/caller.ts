import type { Logger } from 'pino';
import { isJid, type WireMap, type WireValue } from '../../minion-protocol/index.ts';
import type { AuditTrail } from '../audit/record.ts';
import { type AuditRequester, auditOf } from '../audit/requester.ts';
import { MasterError } from '../errors.ts';
import type { EventBus } from '../events/bus.ts';
import { trimValues } from '../events/trim.ts';
import { separateKeywords } from '../jobs/arguments.ts';
import type { JobCache } from '../jobs/job-cache.ts';
import { codeOf } from '../system-error.ts';
import type { BoundCall, FunctionTable, MasterFunction } from './function.ts';

/** Which function to run on the master. */
export interface FunctionCall {
  /** `module.function` */
  readonly fun: string;
  readonly arg?: readonly WireValue[];
  readonly kwarg?: Readonly<Record<string, WireValue>>;
  /** Told in the events. Default `saltbridge`. */
  readonly user?: string;
  /** Twenty digits, none that was used. Default: a new one. */
  readonly jid?: string;
  /** Leave out keywords that the function does not take. Default: such a call is refused. */
  readonly dropUnknown?: boolean;
  /** Seconds that minions have to answer, where it asks minions and is not told itself. */
  readonly timeout?: number;
  /** Who asked, and what permitted it, for the audit log. Default: the local interface. */
  readonly by?: AuditRequester;
}

/** What came of it; the fields are those of the event `…/ret`. */
export interface FunctionResult {
  readonly jid: string;
  /** With what it is before its name: `runner.jobs.list_jobs`. */
  readonly fun: string;
  readonly return: WireValue;
  readonly success: boolean;
  /** Only where it failed, or says so itself. */
  readonly retcode?: number;
}

/** A call that was started and that nobody waits for. */
export interface StartedCall {
  readonly jid: string;
  /** Its events begin with it: `<tag>/new`, `<tag>/ret`. */
  readonly tag: string;
}

/** What {@link FunctionCaller} needs. */
export interface FunctionCallerOptions {
  readonly table: FunctionTable;
  readonly kind: 'runner' | 'wheel';
  /** Names of functions that Salt has; those that `table` has not are told from unknown ones. */
  readonly notServed: ReadonlySet<string>;
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

interface Ready {
  readonly call: BoundCall;
  readonly succeeds: MasterFunction['succeeds'];
  readonly jid: string;
  readonly tag: string;
  /** What both events have in common. */
  readonly data: WireMap;
  readonly user: string;
  readonly timeout: number | undefined;
  readonly isConfidential: boolean;
  readonly by: AuditRequester | undefined;
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
  async run(call: FunctionCall): Promise<FunctionResult> {
    const ready = await this.#prepare(call);
    const result = await this.#finish(ready);
    await this.#tryToKeep(ready, result);
    return result;
  }

  /** The same, and waits for nothing. @throws MasterError ERR_UNKNOWN_FUN, ERR_NOT_SERVED, ERR_ARGS */
  async start(call: FunctionCall): Promise<StartedCall> {
    const ready = await this.#prepare(call);
    this.#finish(ready)
      .then((result) => this.#tryToKeep(ready, result))
      .catch((error: unknown) => {
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

  async #prepare({ fun, arg: values = [], kwarg, ...call }: FunctionCall): Promise<Ready> {
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
    this.#options.bus.fire(`${tag}/new`, kind === 'wheel' ? { ...data, tag } : data);
    const { timeout, by } = call;
    return { call: bound, succeeds, jid, tag, data, user, timeout, isConfidential, by };
  }

  #unknown(fun: string): MasterError {
    const { kind, notServed } = this.#options;
    if (!notServed.has(fun)) {
      return new MasterError('ERR_UNKNOWN_FUN', `'${fun}' is not available.`);
    }
    const reason = `${fun} is a ${kind} function of Salt's that this master does not serve`;
    return new MasterError('ERR_NOT_SERVED', reason);
  }

  async #finish(ready: Ready): Promise<FunctionResult> {
    const { jid, tag, data } = ready;
    const outcome = await this.#call(ready);
    const told = { ...outcome, return: toldOf(ready, outcome.return) };
    const event = this.#options.kind === 'wheel' ? { ...data, tag, ...told } : { ...data, ...told };
    this.#options.bus.fire(`${tag}/ret`, event);
    await this.#tellAudit(ready, outcome.success);
    return { jid, fun: String(data.fun), ...outcome };
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

  async #call({
    call,
    succeeds,
    jid,
    tag,
    user,
    data,
    timeout,
    by,
  }: Ready): Promise<Pick<FunctionResult, 'return' | 'success' | 'retcode'>> {
    const { bus, closing, log } = this.#options;
    const tell = (suffix: string, event: WireMap): void => bus.fire(`${tag}/${suffix}`, event);
    try {
      const value = await call({ jid, user, by, timeout, tell, closing });
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
