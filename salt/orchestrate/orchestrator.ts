/** Orchestrations: states that act on minions and on the master [salt/runners/state.py]. */

import { setMaxListeners } from 'node:events';
import { type CallContext, MasterError } from '#master';
import { isJid, type WireMap, type WireValue } from '#minion-protocol';
import type { PlainData } from '#template';
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

/** How much orchestrations may take; see `Limits`. */
interface OrchestrationLimits {
  readonly orchestrations: number;
  readonly orchestrationStates: number;
  readonly orchestrationSeconds: number;
}

export interface OrchestratorOptions extends SlsFiles {
  readonly limits: OrchestrationLimits;
  readonly closing: AbortSignal;
  /** The parts of the master that states act by. */
  readonly acting: OrchestrationDeps;
  /** What is done is written down there; `undefined`: nobody would go on with it. */
  readonly journal: OrchestrationJournal | undefined;
}

/** Who asks for an orchestration, and as what it is told. */
export type OrchestrationCaller = Pick<
  CallContext,
  'asked' | 'atEnd' | 'by' | 'goesOnElsewhere' | 'jid' | 'user'
>;

/** One orchestration, and what it has done. */
interface WrittenDownContext extends OrchestrationContext {
  readonly journal: Journal | undefined;
  readonly kills: UnderWay['kills'];
}

/** Which SLS somebody asks for. */
export type AskedSls = Omit<SlsRequest, 'asked' | 'isTrusted'>;

/** An orchestration of SLS. */
export interface OrchestrationRequest extends AskedSls {
  /** Nothing is to be changed. */
  readonly test: boolean;
  /** SLS to leave out. */
  readonly exclude: readonly PlainData[];
  /** The one that this one is a part of. */
  readonly orchestrationJid: string | undefined;
}

/** An orchestration that is under way. */
interface UnderWay {
  readonly jid: string;
  readonly user: string;
  journal: Journal | undefined;
  /** Fires when it is to end. */
  readonly signal: AbortSignal;
  /** Ends it. */
  readonly stop: (reason: MasterError) => void;
  /** Ids of the states before which it ends; `undefined` in it: before any. */
  readonly kills: Set<string | undefined>;
}

/** Runs orchestrations, so many at a time. */
export class Orchestrator {
  readonly #options: OrchestratorOptions;
  /** By jid. */
  readonly #underWay = new Map<string, UnderWay>();
  /** Those that another member began. */
  readonly #resumed = new Set<string>();
  readonly #work = new Set<Promise<unknown>>();

  constructor(options: OrchestratorOptions) {
    this.#options = options;
  }

  /**
   * @returns `{data: {<master id>: states by tag, or what is wrong}, outputter, retcode}`
   * @throws MasterError ERR_ORCHESTRATION, ERR_MASTER_STOPPED
   */
  orchestrate(request: OrchestrationRequest, caller: OrchestrationCaller): Promise<WireMap> {
    return this.#within(caller, async (underWay) => {
      const whole = this.#wholeOf(request, caller);
      underWay.journal = await this.#journalOf(request, caller, whole);
      const { journal, signal, stop, kills } = underWay;
      const left = new MasterError('ERR_MASTER_STOPPED', 'another member goes on with it');
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
        if (journal !== undefined && isLeft) caller.goesOnElsewhere();
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
    return { ...request, asked, isTrusted: isTrusted(caller) };
  }

  /** In a cluster: goes on with what other members left. What states act by is there. */
  async goOn(): Promise<void> {
    await this.#options.journal?.start(async (jid, { by, ...call }) => {
      this.#resumed.add(jid);
      const asked = by === undefined ? call : { ...call, by };
      await this.#options.acting.runners.start({ ...asked, jid }, { isResumed: true });
    });
  }

  /** What SLS say, without running anything. @throws MasterError ERR_ORCHESTRATION */
  show(request: AskedSls, caller: OrchestrationCaller): Promise<ShownHigh> {
    const { masterId } = this.#options;
    return this.#within(caller, async ({ signal }) => {
      const asked = this.#asked(request, caller, this.#context(caller, caller.jid, signal));
      return { [masterId]: showHigh(await compileSls(this.#options, asked, signal)) };
    });
  }

  /**
   * Ends an orchestration before a state, or before the next one. States that run are waited for.
   * @throws MasterError ERR_ORCHESTRATION where none runs under this jid
   */
  softKill(jid: string, stateId: string | undefined): void {
    const underWay = this.#underWay.get(jid);
    if (underWay === undefined) {
      throw new MasterError('ERR_ORCHESTRATION', `no orchestration runs under ${jid} here`);
    }
    underWay.kills.add(stateId);
  }

  /** One state, as if an SLS said it. @throws MasterError ERR_ORCHESTRATION, ERR_MASTER_STOPPED */
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
        asked: {},
      };
      const { setting } = await openSetting(this.#options, asked);
      const state = this.#caller(context, request.test, conditionsOf(setting));
      return { [masterId]: await runSingle(request, state) };
    });
  }

  /** Waits for those under way, which the closing signal ends, and leaves them to other members. */
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

  /** What is part of another one is told under it; nobody's events are told under a stranger's. */
  #wholeOf(
    { orchestrationJid: given }: OrchestrationRequest,
    { user }: OrchestrationCaller,
  ): UnderWay | undefined {
    const whole = given !== undefined && isJid(given) ? this.#underWay.get(given) : undefined;
    return whole?.user === user ? whole : undefined;
  }

  /** What changes nothing is not written down: whoever wants it asks again. */
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
    { jid, user }: OrchestrationCaller,
    work: (underWay: UnderWay) => Promise<T>,
  ): Promise<T> {
    const { orchestrations } = this.#options.limits;
    // What another member began is not refused.
    const isResumed = this.#resumed.delete(jid);
    if (this.#work.size >= orchestrations && !isResumed) {
      throw tooMuch(`${orchestrations} orchestrations are under way already`);
    }
    const end = this.#end();
    const kills = new Set<string | undefined>();
    const underWay = { jid, user, journal: undefined, signal: end.signal, stop: end.stop, kills };
    this.#underWay.set(jid, underWay);
    const running = work(underWay);
    this.#work.add(running);
    try {
      return await running;
    } finally {
      end.release();
      this.#work.delete(running);
      this.#underWay.delete(jid);
    }
  }

  /** Fires when the master is closed, or the time is over. */
  #end(): Pick<UnderWay, 'signal' | 'stop'> & { readonly release: () => void } {
    const { closing, limits } = this.#options;
    const { orchestrationSeconds: seconds } = limits;
    const end = new AbortController();
    // Every job and every wait of it listens.
    setMaxListeners(0, end.signal);
    const stop = (reason: MasterError): void => end.abort(reason);
    const close = (): void => {
      stop(new MasterError('ERR_MASTER_STOPPED', 'the master is being closed'));
    };
    if (closing.aborted) close();
    closing.addEventListener('abort', close, { once: true });
    const late = tooMuch(`an orchestration took more than ${seconds} s`);
    const timer = setTimeout(() => stop(late), seconds * 1000);
    const release = (): void => {
      clearTimeout(timer);
      closing.removeEventListener('abort', close);
    };
    return { signal: end.signal, stop, release };
  }
}

/** Only the local interface, which may do everything. */
function isTrusted({ by }: OrchestrationCaller): boolean {
  return by === undefined || by.who.kind === 'local';
}

function tooMuch(what: string): MasterError {
  return new MasterError('ERR_ORCHESTRATION', what);
}
