/** Orchestrations: states that act on minions and on the master [salt/runners/state.py]. */
import { setMaxListeners } from 'node:events';
import { isJid, type WireMap, type WireValue } from '../../minion-protocol/index.ts';
import type { PlainData } from '../../template/index.ts';
import type { AuditRequester } from '../audit/requester.ts';
import { MasterError } from '../errors.ts';
import type { PillarMap } from '../pillar/merge.ts';
import { isSuccess } from './check-result.ts';
import {
  type Compilation,
  compileSls,
  conditionsOf,
  openSetting,
  type SlsFiles,
  type SlsRequest,
} from './compile-sls.ts';
import { runHigh } from './run-high.ts';
import { type ShownHigh, showHigh } from './show-high.ts';
import { runSingle } from './single.ts';
import { StateCaller } from './state-caller.ts';
import { stateTable } from './states/table.ts';
import type { OrchestrationParts, World } from './world.ts';

/** How much orchestrations may take; see `Limits`. */
interface OrchestrationLimits {
  readonly orchestrations: number;
  readonly orchestrationStates: number;
  readonly orchestrationSeconds: number;
}

/** What {@link Orchestrator} needs. */
export interface OrchestratorOptions extends SlsFiles {
  readonly limits: () => OrchestrationLimits;
  /** There when the first one is run. */
  readonly parts: () => OrchestrationParts;
  readonly closing: AbortSignal;
}

/** Who asks for an orchestration, and as what it is told. */
export interface OrchestrationCaller {
  readonly jid: string;
  readonly user: string;
  readonly by: AuditRequester | undefined;
}

/** Which SLS somebody asks for. */
export type AskedSls = Omit<SlsRequest, 'isTrusted'>;

/** An orchestration of SLS. */
export interface OrchestrationRequest extends AskedSls {
  /** Nothing is to be changed. */
  readonly test: boolean;
  /** SLS to leave out. */
  readonly exclude: readonly PlainData[];
  /** The one that this one is a part of. */
  readonly orchestrationJid: string | undefined;
}

/** One state without an SLS. */
export interface SingleRequest {
  readonly fun: string;
  readonly name: string;
  readonly test: boolean;
  readonly args: ReadonlyMap<string, PlainData>;
  readonly pillar: PillarMap;
}

/** Runs orchestrations, so many at a time. */
export class Orchestrator {
  readonly #options: OrchestratorOptions;
  /** Those under way: whose they are, by jid. */
  readonly #underWay = new Map<string, string>();
  readonly #work = new Set<Promise<unknown>>();

  constructor(options: OrchestratorOptions) {
    this.#options = options;
  }

  /**
   * @returns `{data: {<master id>: states by tag, or what is wrong}, outputter, retcode}`
   * @throws MasterError ERR_ORCHESTRATION, ERR_MASTER_STOPPED
   */
  orchestrate(request: OrchestrationRequest, caller: OrchestrationCaller): Promise<WireMap> {
    const { masterId } = this.#options;
    return this.#within(caller, async (signal) => {
      const world = this.#world(caller, this.#jidOf(request, caller), signal);
      const asked = { ...request, isTrusted: isTrusted(caller) };
      const compiled = await compileSls(this.#options, asked, signal);
      const running = await this.#run(compiled, request, world);
      const retcode = isSuccess({ [masterId]: running }) ? 0 : 1;
      return { data: { [masterId]: running }, outputter: 'highstate', retcode };
    });
  }

  /** What SLS say, without running anything. @throws MasterError ERR_ORCHESTRATION */
  show(request: AskedSls, caller: OrchestrationCaller): Promise<ShownHigh> {
    const { masterId } = this.#options;
    return this.#within(caller, async (signal) => {
      const asked = { ...request, isTrusted: isTrusted(caller) };
      return { [masterId]: showHigh(await compileSls(this.#options, asked, signal)) };
    });
  }

  /** One state, as if an SLS said it. @throws MasterError ERR_ORCHESTRATION, ERR_MASTER_STOPPED */
  single(request: SingleRequest, caller: OrchestrationCaller): Promise<WireMap> {
    const { masterId } = this.#options;
    return this.#within(caller, async (signal) => {
      const world = this.#world(caller, undefined, signal);
      const asked = { ...request, saltenv: 'base', pillarenv: undefined, isTrusted: true };
      const { setting } = await openSetting(this.#options, asked);
      const state = this.#caller(world, request.test, conditionsOf(setting));
      return { [masterId]: await runSingle(request, state) };
    });
  }

  /** Waits for those under way, which the closing signal ends. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#work);
  }

  async #run(
    { high, errors, conditions }: Compilation,
    { exclude, test }: OrchestrationRequest,
    world: World,
  ): Promise<WireValue> {
    if (errors.length > 0) return [...errors];
    high.exclude.push(...exclude);
    const { signal, now } = world;
    const maxStates = this.#options.limits().orchestrationStates;
    const caller = this.#caller(world, test, conditions);
    return runHigh(high, { caller, test, signal, now, maxStates });
  }

  #caller(world: World, test: boolean, conditions: Compilation['conditions']): StateCaller {
    const { signal, now } = world;
    const { log } = this.#options;
    return new StateCaller({ table: stateTable(world), conditions, test, signal, now, log });
  }

  #world({ user, by }: OrchestrationCaller, jid: string | undefined, signal: AbortSignal): World {
    return { ...this.#options.parts(), jid, user, by, signal };
  }

  /** What is part of another one is told under it; nobody's events are told under a stranger's. */
  #jidOf(
    { orchestrationJid: given }: OrchestrationRequest,
    { jid, user }: OrchestrationCaller,
  ): string {
    // protection: orchestrations-of-others
    const isOwn = given !== undefined && isJid(given) && this.#underWay.get(given) === user;
    return isOwn ? given : jid;
  }

  async #within<T>(
    { jid, user }: OrchestrationCaller,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const { orchestrations } = this.#options.limits();
    // protection: orchestrations-at-once
    if (this.#work.size >= orchestrations) {
      throw tooMuch(`${orchestrations} orchestrations are under way already`);
    }
    this.#underWay.set(jid, user);
    const end = this.#end();
    const running = work(end.signal);
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
  #end(): { readonly signal: AbortSignal; readonly release: () => void } {
    const { closing, limits } = this.#options;
    const { orchestrationSeconds: seconds } = limits();
    const end = new AbortController();
    // Every job and every wait of it listens.
    setMaxListeners(0, end.signal);
    const stop = (): void => {
      end.abort(new MasterError('ERR_MASTER_STOPPED', 'the master is being closed'));
    };
    if (closing.aborted) stop();
    closing.addEventListener('abort', stop, { once: true });
    const late = tooMuch(`an orchestration took more than ${seconds} s`);
    const timer = setTimeout(() => end.abort(late), seconds * 1000);
    const release = (): void => {
      clearTimeout(timer);
      closing.removeEventListener('abort', stop);
    };
    return { signal: end.signal, release };
  }
}

/** Only the local interface, which may do everything. */
function isTrusted({ by }: OrchestrationCaller): boolean {
  // protection: words-in-orchestrations
  return by === undefined || by.who.kind === 'local';
}

function tooMuch(what: string): MasterError {
  return new MasterError('ERR_ORCHESTRATION', what);
}
