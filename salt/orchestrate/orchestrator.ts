/** Orchestrations: states that act on minions and on the master [salt/runners/state.py]. */

import { setMaxListeners } from 'node:events';
import type { Logger } from 'pino';
import type { LiveConfig } from '#config';
import { type CallContext, type MasterContext, MasterError } from '#master';
import { isJid, type WireMap, type WireValue } from '#minion-protocol';
import type { PlainData } from '#template';
import { type FileServer, servedFiles } from '../file-trees/file-server.ts';
import { type PillarMap, type PillarSource, toWire } from '../render/pillar-data.ts';
import { PillarSources } from '../render/pillar-sources.ts';
import { ParsedFileCache, Renderer, renderMs } from '../render/renderer.ts';
import {
  type Compilation,
  compileSls,
  conditionsOf,
  openSetting,
  type SlsFiles,
  type SlsRequest,
} from './compile-sls.ts';
import {
  applyExclude,
  applyExtensions,
  type Body,
  type High,
  splitFunction,
  verifyHigh,
} from './high-data.ts';
import { type Journal, OrchestrationJournal } from './journal.ts';
import {
  type Chunk,
  compileChunks,
  isSuccess,
  type StateResult,
  tagOf,
  toWireResult,
} from './low-chunk.ts';
import type { OrchestrationContext, OrchestrationDeps } from './orchestration-context.ts';
import { listenersOf, turnRequisites } from './requisites.ts';
import { ChunkRun, type ChunkRunOptions, StateCaller, verifyChunk } from './run-chunks.ts';
import { stateTable } from './state-functions.ts';

// High data [salt/state.py call_high].

/** How high data are run. */
interface HighRunOptions extends ChunkRunOptions {
  /** States that it may have. */
  readonly maxStates: number;
}

/**
 * @returns what became of each state by its tag; or what is wrong with the data, in Salt's words
 * @throws MasterError ERR_ORCHESTRATION for too many states; what the signal says
 */
async function runHigh(high: High, options: HighRunOptions): Promise<WireValue> {
  const problems = [...applyExtensions(high, high.extend, false), ...verifyHigh(high)];
  if (problems.length > 0) return problems;
  const turned = turnRequisites(high);
  applyExclude(high);
  if (turned.length > 0) return turned;
  const chunks = compileChunks(high);
  if (chunks.length > options.maxStates) {
    const reason = `an orchestration has ${chunks.length} states; at most ${options.maxStates} are run`;
    throw new MasterError('ERR_ORCHESTRATION', reason);
  }
  const results = await new ChunkRun(chunks, options).run();
  const { chunks: listeners, errors } = listenersOf(chunks, results);
  const listened = await new ChunkRun(listeners, options).run();
  for (const error of errors.values()) options.caller.number(error);
  return toWireResults([...results, ...listened, ...errors]);
}

function toWireResults(results: readonly (readonly [string, StateResult])[]): WireMap {
  const map: WireMap = Object.create(null);
  for (const [tag, result] of results) map[tag] = toWireResult(result);
  return map;
}

// `state.orchestrate_show_sls` [salt/modules/state.py show_sls].

/** By the master's id: what is said of each id, or what is wrong with it. */
export type ShownHigh = WireMap;

function showHigh({ high, errors }: Compilation): WireValue {
  const problems = [...errors, ...verifyHigh(high)];
  if (problems.length > 0) return problems;
  const { bodies, extend, exclude } = high;
  const shown = new Map<PlainData, PlainData>(
    Array.from(bodies, ([id, body]) => [id, toData(body)]),
  );
  if (extend.length > 0) {
    shown.set(
      '__extend__',
      extend.map(({ id, body }) => new Map([[id, toData(body)]])),
    );
  }
  if (exclude.length > 0) shown.set('__exclude__', [...exclude]);
  return toWire(shown);
}

function toData({ states, sls, saltenv, includedFrom }: Body): PlainData {
  const data = new Map<PlainData, PlainData>([...states, ['__sls__', sls], ['__env__', saltenv]]);
  if (includedFrom.length > 0) data.set('__sls_included_from__', includedFrom);
  return data;
}

// `state.orchestrate_single` [salt/modules/state.py single].

/** @returns what became of it by its tag, or what is wrong with it */
async function runSingle(
  { fun: full, name, args }: SingleRequest,
  caller: StateCaller,
): Promise<WireValue> {
  if (!full.includes('.')) return 'Invalid function passed';
  const [state, fun] = splitFunction(full);
  const place = { sls: null, saltenv: 'base', includedFrom: [] };
  const chunk: Chunk = { state, fun, id: name, name, ...place, args };
  const problems = verifyChunk(chunk, caller.table);
  if (problems.length > 0) return problems;
  const result = await caller.call(chunk);
  await result.pending;
  const results: WireMap = { [tagOf(chunk)]: toWireResult(result) };
  return results;
}

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

/** An orchestration that is under way. */
interface UnderWay {
  readonly jid: string;
  readonly user: string;
  journal: Journal | undefined;
  /** Fires when it is to end. */
  readonly signal: AbortSignal;
  /** Ends it. */
  readonly stop: (reason: MasterError) => void;
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
      const { journal, signal, stop } = underWay;
      const left = new MasterError('ERR_MASTER_STOPPED', 'another member goes on with it');
      journal?.lost.addEventListener('abort', () => stop(left), { once: true });
      if (whole === undefined && journal !== undefined) caller.atEnd(() => journal.end());
      try {
        return await this.#orchestrate(request, caller, {
          ...this.#context(caller, whole?.jid ?? caller.jid, signal),
          journal,
        });
      } catch (error) {
        const isLeft = this.#options.closing.aborted || journal?.lost.aborted === true;
        // protection: ends-that-others-tell
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
    const asked = { ...request, isTrusted: isTrusted(caller) };
    const compiled = await compileSls(this.#options, asked, context.signal);
    const running = await this.#run(compiled, request, context);
    const retcode = isSuccess({ [masterId]: running }) ? 0 : 1;
    return { data: { [masterId]: running }, outputter: 'highstate', retcode };
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
      const asked = { ...request, isTrusted: isTrusted(caller) };
      return { [masterId]: showHigh(await compileSls(this.#options, asked, signal)) };
    });
  }

  /** One state, as if an SLS said it. @throws MasterError ERR_ORCHESTRATION, ERR_MASTER_STOPPED */
  single(request: SingleRequest, caller: OrchestrationCaller): Promise<WireMap> {
    const { masterId } = this.#options;
    return this.#within(caller, async ({ signal }) => {
      const context = { ...this.#context(caller, undefined, signal), journal: undefined };
      const asked = { ...request, saltenv: 'base', pillarenv: undefined, isTrusted: true };
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
    const { signal, now } = context;
    const maxStates = this.#options.limits.orchestrationStates;
    const caller = this.#caller(context, test, conditions);
    return runHigh(high, { caller, test, signal, now, maxStates });
  }

  #caller(
    context: WrittenDownContext,
    test: boolean,
    conditions: Compilation['conditions'],
  ): StateCaller {
    const { signal, now, journal } = context;
    const { log } = this.#options;
    const table = stateTable(context);
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
    // protection: orchestrations-of-others
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
    // protection: orchestrations-at-once
    if (this.#work.size >= orchestrations && !isResumed) {
      throw tooMuch(`${orchestrations} orchestrations are under way already`);
    }
    const end = this.#end();
    const underWay = { jid, user, journal: undefined, signal: end.signal, stop: end.stop };
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
  // protection: words-in-orchestrations
  return by === undefined || by.who.kind === 'local';
}

function tooMuch(what: string): MasterError {
  return new MasterError('ERR_ORCHESTRATION', what);
}

// Opening.

export interface OrchestratorDeps {
  readonly config: LiveConfig;
  readonly context: MasterContext;
  readonly fileServer: FileServer;
  /** Default: minions and the master have no pillar. */
  readonly pillar: PillarSource | undefined;
  /** The parts of the master that states act by. */
  readonly acting: OrchestrationDeps;
  readonly log: Logger;
}

const noPillar: PillarSource = { provide: async () => ({ pillar: {}, proven: {} }) };

export function openOrchestrator({
  config,
  context,
  fileServer,
  pillar = noPillar,
  acting,
  log,
}: OrchestratorDeps): Orchestrator {
  const { fixed } = config;
  const { closers, closing, now, store, nextJid, cluster, duties } = context;
  const whitespace = {
    trimBlocks: fixed.jinjaTrimBlocks,
    lstripBlocks: fixed.jinjaLstripBlocks,
  };
  const rendering = closers.add(new Renderer(), (it) => it.close());
  const data = new ParsedFileCache(rendering);
  const orchestrator = new Orchestrator({
    acting,
    pillar,
    closing,
    log,
    journal:
      cluster && duties && new OrchestrationJournal({ store, nextJid, cluster, duties, log }),
    masterId: fixed.id,
    sources: new PillarSources({ backend: servedFiles(fileServer), ...whitespace }),
    envs: () => fileServer.envs(),
    limits: fixed.limits,
    rules: () => ({
      ...whitespace,
      raisesOnMissing: fixed.pillarRaiseOnMissing,
      nodegroups: config.current.nodegroups,
      renderer: fixed.renderer,
      limits: { steps: fixed.limits.pillarSteps, milliseconds: renderMs },
      rendering,
      data,
      now,
    }),
  });
  return closers.add(orchestrator, (it) => it.close());
}
