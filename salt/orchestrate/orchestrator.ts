/** Runs orchestrations: states that act on minions and on the master [salt/runners/state.py]. */

import { setMaxListeners } from 'node:events';
import { type CallContext, isOfOperator, limitOwnerOf, MasterError } from '#master';
import { isJid, type WireMap, type WireValue } from '#minion-protocol';
import { Budget } from '#runtime';
import type { PlainData } from '#template';
import { saltLimits } from '../limits.ts';
import {
  type Compilation,
  compileSls,
  conditionsOf,
  openSetting,
  type SlsFiles,
  type SlsRequest,
} from './compile-sls.ts';
import { runHigh, runSingle, type ShownHigh, type SingleRequest, showHigh } from './high-runs.ts';
import type { Journal, OrchestrationJournal } from './journal.ts';
import { joinFunctions } from './master-functions.ts';
import type { OrchestrationContext, OrchestrationDeps } from './orchestration-context.ts';
import { StateCaller } from './state-caller.ts';
import { stateTable } from './state-functions.ts';
import { isSuccess } from './state-result.ts';
import { templateCalls } from './template-calls.ts';

/** Options in `limits` of the configuration that apply to orchestrations. */
interface OrchestrationLimits {
  readonly orchestrations: number;
  readonly orchestrationStates: number;
  readonly orchestrationSeconds: number;
}

export interface OrchestratorOptions extends SlsFiles {
  readonly limits: OrchestrationLimits;
  readonly closing: AbortSignal;
  /** Interfaces of the master that states use. */
  readonly acting: OrchestrationDeps;
  /**
   * Journals of the orchestrations. `undefined` without a cluster, because no other member could
   * resume them.
   */
  readonly journal: OrchestrationJournal | undefined;
}

/** Caller of an orchestration. */
export type OrchestrationCaller = Pick<
  CallContext,
  'asked' | 'atEnd' | 'by' | 'continueElsewhere' | 'jid' | 'user'
>;

/**
 * Returns the owner of the orchestrations of a caller. The name of the user is not enough: a user
 * of another back end, a minion or a service can have the same name.
 */
function ownerOf({ by, user }: Pick<OrchestrationCaller, 'by' | 'user'>): string {
  return limitOwnerOf(by) ?? `operator ${user}`;
}

/** Context of one orchestration, with its journal and requests to stop it. */
interface WrittenDownContext extends OrchestrationContext {
  readonly journal: Journal | undefined;
  readonly kills: UnderWay['kills'];
}

/** SLS files that a caller selects. */
export type AskedSls = Omit<SlsRequest, 'asked' | 'isTrusted' | 'owner'>;

/** Request for an orchestration of SLS files. */
export interface OrchestrationRequest extends AskedSls {
  /** Whether to run in test mode, without changes. */
  readonly test: boolean;
  /** SLS and ids to exclude. */
  readonly exclude: readonly PlainData[];
  /** Job id of the orchestration that this one is nested in. */
  readonly orchestrationJid: string | undefined;
}

/** State of a running orchestration. */
interface UnderWay {
  readonly jid: string;
  /** Identifier of the caller that started the orchestration, as {@link ownerOf} returns it. */
  readonly owner: string;
  journal: Journal | undefined;
  /** Aborted when the orchestration must stop. */
  readonly signal: AbortSignal;
  /** Stops the orchestration. */
  readonly stop: (reason: MasterError) => void;
  /**
   * Ids of states at which the orchestration stops. It stops before the first of these states that
   * it reaches. The element `undefined` stands for the next state, whatever its id is.
   */
  readonly kills: Set<string | undefined>;
}

/** Runs orchestrations, up to a maximum number at a time. */
export class Orchestrator {
  readonly #options: OrchestratorOptions;
  /** Running orchestrations by jid. */
  readonly #underWay = new Map<string, UnderWay>();
  /** Jids of orchestrations that another member started and this member resumed. */
  readonly #resumed = new Set<string>();
  readonly #work = new Set<Promise<unknown>>();
  /** Limits the number of running orchestrations of each user. */
  readonly #places: Budget;

  constructor(options: OrchestratorOptions) {
    this.#options = options;
    const { orchestrations: total } = options.limits;
    this.#places = new Budget(saltLimits.orchestrations, {
      total,
      reserved: Math.floor(total / 4),
    });
  }

  /**
   * Runs an orchestration.
   * @returns `{data: {<master id>: states by tag, or errors}, outputter, retcode}`
   * @throws MasterError ERR_ORCHESTRATION, ERR_MASTER_STOPPED
   */
  orchestrate(request: OrchestrationRequest, caller: OrchestrationCaller): Promise<WireMap> {
    return this.#within(caller, async (underWay) => {
      const whole = this.#wholeOf(request, caller);
      underWay.journal = await this.#journalOf(request, caller, whole);
      const { journal, signal, stop, kills } = underWay;
      const left = new MasterError(
        'ERR_MASTER_STOPPED',
        'another member has taken over the orchestration',
      );
      journal?.lost.addEventListener('abort', () => stop(left), { once: true });
      if (whole === undefined && journal !== undefined) caller.atEnd(() => journal.end());
      try {
        return await this.#orchestrate(request, caller, {
          ...this.#context(caller, whole?.jid ?? caller.jid, signal),
          journal,
          kills,
        });
      } catch (error) {
        const isLeft = this.#options.closing.aborted || journal?.lost.aborted === true;
        if (journal !== undefined && isLeft) caller.continueElsewhere();
        throw error;
      }
    });
  }

  async #orchestrate(
    request: OrchestrationRequest,
    caller: OrchestrationCaller,
    context: WrittenDownContext,
  ): Promise<WireMap> {
    const { masterId } = this.#options;
    const asked = this.#asked(request, caller, context);
    const compiled = await compileSls(this.#options, asked, context.signal);
    const running = await this.#run(compiled, request, context);
    const retcode = isSuccess({ [masterId]: running }) ? 0 : 1;
    return { data: { [masterId]: running }, outputter: 'highstate', retcode };
  }

  #asked(
    request: AskedSls,
    caller: OrchestrationCaller,
    context: OrchestrationContext,
  ): SlsRequest {
    const asked = templateCalls(context, this.#options.log);
    return { ...request, asked, isTrusted: isTrusted(caller), owner: limitOwnerOf(caller.by) };
  }

  /**
   * Starts to resume orchestrations that other members of a cluster left unfinished. Call it after
   * all services that states use are open.
   */
  async resumeAll(): Promise<void> {
    await this.#options.journal?.start(async (jid, { by, ...call }) => {
      this.#resumed.add(jid);
      const asked = by === undefined ? call : { ...call, by };
      await this.#options.acting.runners.start({ ...asked, jid }, { isResumed: true });
    });
  }

  /**
   * Returns the declarations of the SLS files without running them.
   * @throws MasterError ERR_ORCHESTRATION
   */
  show(request: AskedSls, caller: OrchestrationCaller): Promise<ShownHigh> {
    const { masterId } = this.#options;
    return this.#within(caller, async ({ signal }) => {
      const asked = this.#asked(request, caller, this.#context(caller, caller.jid, signal));
      return { [masterId]: showHigh(await compileSls(this.#options, asked, signal)) };
    });
  }

  /**
   * Stops an orchestration before the given state, or before the next state. States that are
   * already running are completed. Users can stop only their own orchestrations, and the operator
   * can stop all.
   * @throws MasterError ERR_ORCHESTRATION if no orchestration runs under this jid, or if it belongs
   * to another user
   */
  softKill(
    jid: string,
    stateId: string | undefined,
    caller: Pick<OrchestrationCaller, 'by' | 'user'>,
  ): void {
    const underWay = this.#underWay.get(jid);
    if (underWay === undefined) {
      throw new MasterError(
        'ERR_ORCHESTRATION',
        `this master runs no orchestration with the jid ${jid}`,
      );
    }
    if (underWay.owner !== ownerOf(caller) && !isOfOperator(caller.by)) {
      throw orchestrationError(
        `the orchestration ${jid} belongs to another user; only its owner or the operator can stop it`,
      );
    }
    underWay.kills.add(stateId);
  }

  /**
   * Runs one state without an SLS file.
   * @throws MasterError ERR_ORCHESTRATION, ERR_MASTER_STOPPED
   */
  single(request: SingleRequest, caller: OrchestrationCaller): Promise<WireMap> {
    const { masterId } = this.#options;
    return this.#within(caller, async ({ signal }) => {
      const single = { journal: undefined, kills: new Set<undefined>() };
      const context = { ...this.#context(caller, undefined, signal), ...single };
      const asked = {
        ...request,
        saltenv: 'base',
        pillarenv: undefined,
        isTrusted: true,
        owner: limitOwnerOf(caller.by),
        asked: {},
      };
      const { setting } = await openSetting(this.#options, asked);
      const state = this.#caller(context, request.test, conditionsOf(setting));
      return { [masterId]: await runSingle(request, state) };
    });
  }

  /**
   * Waits until running orchestrations have stopped because the closing signal was aborted. Other
   * members can resume them.
   */
  async close(): Promise<void> {
    await Promise.allSettled(this.#work);
    await this.#options.journal?.close();
  }

  async #run(
    { high, errors, conditions }: Compilation,
    { exclude, test }: OrchestrationRequest,
    context: WrittenDownContext,
  ): Promise<WireValue> {
    if (errors.length > 0) return [...errors];
    high.exclude.push(...exclude);
    const { signal, now, kills } = context;
    const maxStates = this.#options.limits.orchestrationStates;
    const caller = this.#caller(context, test, conditions);
    const isKilled = (id: string): boolean => kills.has(id) || kills.has(undefined);
    return runHigh(high, { caller, test, signal, now, maxStates, isKilled });
  }

  #caller(
    context: WrittenDownContext,
    test: boolean,
    conditions: Compilation['conditions'],
  ): StateCaller {
    const { signal, now, journal } = context;
    const { log } = this.#options;
    const calls = templateCalls(context, log);
    const table = stateTable(context, joinFunctions(conditions, calls));
    return new StateCaller({ table, conditions, test, signal, now, journal, log });
  }

  #context(
    { user, by }: OrchestrationCaller,
    jid: string | undefined,
    signal: AbortSignal,
  ): OrchestrationContext {
    return { ...this.#options.acting, jid, user, by, signal };
  }

  /**
   * If the request names a running orchestration of the same user, returns this orchestration, in
   * which the requested one is then nested. Otherwise returns `undefined`. Nesting in another
   * user's orchestration is not possible, because events would appear under that user's jid.
   */
  #wholeOf(
    { orchestrationJid: given }: OrchestrationRequest,
    caller: OrchestrationCaller,
  ): UnderWay | undefined {
    const whole = given !== undefined && isJid(given) ? this.#underWay.get(given) : undefined;
    return whole?.owner === ownerOf(caller) ? whole : undefined;
  }

  /**
   * Opens the journal of an orchestration. A test run has no journal, because it changes nothing
   * and can be repeated.
   */
  async #journalOf(
    { test }: OrchestrationRequest,
    { jid, asked, user, by }: OrchestrationCaller,
    whole: UnderWay | undefined,
  ): Promise<Journal | undefined> {
    if (test) return undefined;
    if (whole !== undefined) return whole.journal?.ofPart(jid);
    return this.#options.journal?.begin(jid, { ...asked, kwarg: { ...asked.kwarg }, user, by });
  }

  async #within<T>(
    caller: OrchestrationCaller,
    work: (underWay: UnderWay) => Promise<T>,
  ): Promise<T> {
    const { jid } = caller;
    const owner = ownerOf(caller);
    // An orchestration that another member started does not count towards the limit.
    const isResumed = this.#resumed.delete(jid);
    if (!isResumed) this.#requirePlace(caller);
    this.#places.take(owner);
    const end = this.#end();
    const kills = new Set<string | undefined>();
    const underWay = { jid, owner, journal: undefined, signal: end.signal, stop: end.stop, kills };
    this.#underWay.set(jid, underWay);
    const running = work(underWay);
    this.#work.add(running);
    try {
      return await running;
    } finally {
      end.release();
      this.#work.delete(running);
      this.#places.release(owner);
      this.#underWay.delete(jid);
    }
  }

  /**
   * Checks that the caller may start another orchestration now.
   * @throws MasterError ERR_ORCHESTRATION if too many are already running
   */
  #requirePlace(caller: OrchestrationCaller): void {
    const { orchestrations } = this.#options.limits;
    const { total } = this.#places;
    if (total >= orchestrations) {
      throw orchestrationError(
        `${orchestrations} orchestrations are already running; try again later`,
      );
    }
    // An event of a minion can start a reaction, so reactions cannot have the reserved places.
    const isFree = isOfOperator(caller.by) && caller.by?.who.kind !== 'service';
    if (isFree || this.#places.hasPlace(ownerOf(caller))) return;
    throw orchestrationError(
      `${total} orchestrations are already running, and this caller started at least one of them; the remaining places are reserved for other callers; try again later`,
    );
  }

  /**
   * Creates the abort signal of an orchestration. It is aborted when the master closes, the time
   * limit expires or `stop` is called.
   */
  #end(): Pick<UnderWay, 'signal' | 'stop'> & { readonly release: () => void } {
    const { closing, limits } = this.#options;
    const { orchestrationSeconds: seconds } = limits;
    const end = new AbortController();
    // Every job and every wait of an orchestration adds a listener to this signal.
    setMaxListeners(0, end.signal);
    const stop = (reason: MasterError): void => end.abort(reason);
    const close = (): void => {
      stop(new MasterError('ERR_MASTER_STOPPED', 'the master is closing'));
    };
    if (closing.aborted) close();
    closing.addEventListener('abort', close, { once: true });
    const late = orchestrationError(`the orchestration exceeded its time limit of ${seconds} s`);
    const timer = setTimeout(() => stop(late), seconds * 1000);
    const release = (): void => {
      clearTimeout(timer);
      closing.removeEventListener('abort', close);
    };
    return { signal: end.signal, stop, release };
  }
}

/** Whether the caller has all rights. This is true only for calls through the local socket. */
function isTrusted({ by }: OrchestrationCaller): boolean {
  return by === undefined || by.who.kind === 'local';
}

function orchestrationError(what: string): MasterError {
  return new MasterError('ERR_ORCHESTRATION', what);
}
