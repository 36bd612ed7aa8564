/**
 * Runs low chunks, each after its requisites, with `retry`, `onlyif` and `unless`
 * [salt/state.py call_chunks, call_chunk].
 */

import { randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { traverseFacts, type WireMap } from '#minion-protocol';
import { codeOf, longestTimerMs } from '#runtime';
import { type PlainData, type SaltFunction, toPlain, toPython } from '#template';
import {
  fromWire,
  isList,
  isPillarMap,
  type PillarMap,
  textOf,
  toWire,
} from '../render/pillar-data.ts';
import { matchesGlob, typeName } from './high-data.ts';
import type { Journal, JournalStep, Settled } from './journal.ts';
import {
  type Chunk,
  failed,
  hasChanges,
  type Outcome,
  placeOf,
  type Results,
  resultOf,
  type StateResult,
  tagOf,
  timing,
  uncalled,
} from './low-chunk.ts';
import {
  allKinds,
  type Dependencies,
  decisiveKinds,
  dependenciesOf,
  meantBy,
  type Requisite,
  type RequisiteKind,
  requisitesOf,
  type Standing,
  standingBy,
} from './requisites.ts';
import { givenTo, isTrue, SlsError, type StateTable } from './state-function.ts';

// Running chunks in the order of their requisites [salt/state.py call_chunks, call_chunk].

export interface ChunkRunOptions {
  readonly caller: StateCaller;
  readonly test: boolean;
  readonly signal: AbortSignal;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** How often a chunk is looked at again, once those before it have run. */
const maxLooks = 20;

/** Runs so many chunks once. */
export class ChunkRun {
  readonly #options: ChunkRunOptions;
  readonly #chunks: readonly Chunk[];
  readonly #results = new Map<string, StateResult>();
  /** Of those that were only tried, for `prereq`. */
  readonly #tried = new Map<string, StateResult>();
  /** Chunks that are to be tried first, and those whose trial another one waits for. */
  readonly #trials = new Set<Chunk>();
  readonly #awaited = new Set<Chunk>();
  /** Tags that the chunk under way has come by: to come by one again is a circle. */
  #active = new Set<string>();
  #isStopped = false;

  constructor(chunks: readonly Chunk[], options: ChunkRunOptions) {
    this.#options = options;
    this.#chunks = chunks.map((chunk) => withoutWatch(chunk, options.caller));
  }

  /** @throws what the signal says */
  async run(): Promise<Results> {
    for (const chunk of this.#chunks) {
      if (this.#isStopped) break;
      this.#options.signal.throwIfAborted();
      if (!this.#results.has(tagOf(chunk))) {
        await this.#reach(chunk, 0);
        if (this.#failsHard(chunk)) break;
      }
      this.#active = new Set();
    }
    await this.#settle(this.#results.values());
    this.#options.signal.throwIfAborted();
    return this.#results;
  }

  /** Runs a chunk, or those that it depends on first. */
  async #reach(chunk: Chunk, looks: number): Promise<void> {
    this.#options.signal.throwIfAborted();
    if (requisitesOf(chunk, 'prerequired').length === 0) this.#active.add(tagOf(chunk));
    const dependencies = dependenciesOf(chunk, this.#chunks, this.#kindsOf(chunk));
    const standing = await this.#standing(dependencies);
    if (dependencies === undefined || standing === 'unmet') await this.#reachOthers(chunk, looks);
    else await this.#runBy(standing, chunk, dependencies);
  }

  #kindsOf(chunk: Chunk): readonly RequisiteKind[] {
    return this.#trials.has(chunk) ? decisiveKinds : allKinds;
  }

  async #standing(dependencies: Dependencies | undefined): Promise<Standing> {
    if (dependencies === undefined) return 'unmet';
    const resultOf = (kind: RequisiteKind, tag: string): StateResult | undefined =>
      (kind === 'prereq' ? this.#tried : this.#results).get(tag);
    const known = Array.from(dependencies, ([kind, chunks]) =>
      chunks.map((chunk) => resultOf(kind, tagOf(chunk))),
    );
    await this.#settle(known.flat());
    return standingBy(dependencies, resultOf);
  }

  async #settle(results: Iterable<StateResult | undefined>): Promise<void> {
    await Promise.all(Array.from(results, (result) => result?.pending));
  }

  async #reachOthers(chunk: Chunk, looks: number): Promise<void> {
    const { found, lost } = this.#lookFor(chunk);
    if (lost.size > 0) {
      this.#note(chunk, uncalled(chunk, { result: false, comment: lostText(lost) }, this.#now));
      return;
    }
    for (const other of found) {
      if (this.#results.has(tagOf(other))) continue;
      if (this.#active.has(tagOf(other))) {
        await this.#meetAgain(chunk, other);
        return;
      }
      await this.#reach(other, 0);
      if (!this.#failsHard(other)) continue;
      this.#isStopped = true;
      return;
    }
    if (this.#trials.has(chunk)) await this.#try(chunk);
    else if (looks + 1 >= maxLooks) this.#note(chunk, circle(chunk));
    else await this.#reach(chunk, looks + 1);
  }

  /** Marks what is to be tried first on the way. */
  #lookFor(chunk: Chunk): {
    readonly found: readonly Chunk[];
    readonly lost: ReadonlyMap<RequisiteKind, readonly Requisite[]>;
  } {
    const found: Chunk[] = [];
    const lost = new Map<RequisiteKind, Requisite[]>();
    for (const kind of this.#kindsOf(chunk)) {
      for (const requisite of requisitesOf(chunk, kind)) {
        const meant = meantBy(requisite, this.#chunks);
        if (meant.length === 0) lost.set(kind, [...(lost.get(kind) ?? []), requisite]);
        if (kind === 'prereq') for (const one of meant) this.#trials.add(one);
        if (kind === 'prerequired') for (const one of meant) this.#awaited.add(one);
        found.push(...meant);
      }
    }
    return { found, lost };
  }

  /** What is tried for a chunk depends on it in turn; any other such chunk is in a circle. */
  async #meetAgain(chunk: Chunk, other: Chunk): Promise<void> {
    if (!this.#awaited.has(other)) {
      this.#note(chunk, circle(chunk));
      return;
    }
    if (this.#tried.has(tagOf(chunk))) return;
    const result = await this.#options.caller.call(chunk, { isTrial: true });
    this.#tried.set(tagOf(other), result);
  }

  async #try(chunk: Chunk): Promise<void> {
    const dependencies = dependenciesOf(chunk, this.#chunks, decisiveKinds);
    const standing = await this.#standing(dependencies);
    const result = await this.#callTrial(chunk);
    if (standing === 'change' && !hasChanges(result)) {
      result.outcome = { ...result.outcome, result: null, changes: { watch: 'watch' } };
    }
  }

  async #callTrial(chunk: Chunk): Promise<StateResult> {
    const result = await this.#options.caller.call(chunk, { isTrial: true });
    this.#trials.delete(chunk);
    this.#tried.set(tagOf(chunk), result);
    return result;
  }

  async #runBy(standing: Standing, chunk: Chunk, dependencies: Dependencies): Promise<void> {
    switch (standing) {
      case 'fail':
        return this.#noteFailure(chunk, dependencies);
      case 'pre': {
        const outcome = { result: true, comment: 'No changes detected' };
        this.#tried.set(tagOf(chunk), this.#note(chunk, uncalled(chunk, outcome, this.#now)));
        return;
      }
      case 'onfail':
        return this.#pass(chunk, 'State was not run because onfail req did not change');
      case 'onchanges':
        return this.#pass(chunk, 'State was not run because none of the onchanges reqs changed');
      default:
        await this.#call(standing, chunk, dependencies);
    }
  }

  async #call(standing: Standing, chunk: Chunk, dependencies: Dependencies): Promise<void> {
    if (this.#trials.has(chunk)) {
      await this.#callTrial(chunk);
      return;
    }
    const { caller } = this.#options;
    let result = await caller.call(chunk);
    const isWatching = standing === 'change' && result.outcome.more?.skip_watch !== true;
    if (isWatching && !hasChanges(result)) {
      result = await caller.call(
        { ...chunk, fun: 'mod_watch' },
        { changed: this.#changed(dependencies) },
      );
    }
    this.#results.set(tagOf(chunk), result);
  }

  #changed(dependencies: Dependencies): string[] {
    return (dependencies.get('watch') ?? []).flatMap((chunk) => {
      const result = this.#results.get(tagOf(chunk));
      return result !== undefined && hasChanges(result) ? [`${chunk.state}: ${chunk.id}`] : [];
    });
  }

  #noteFailure(chunk: Chunk, dependencies: Dependencies): void {
    const tried = this.#tried.get(tagOf(chunk));
    if (tried !== undefined) {
      tried.outcome = { ...tried.outcome, changes: {} };
      this.#note(chunk, tried);
      return;
    }
    const failed = [...dependencies.values()].flat().filter((other) => {
      const tag = tagOf(other);
      return (this.#tried.get(tag) ?? this.#results.get(tag))?.outcome.result === false;
    });
    const names = new Set(failed.map(({ sls, id }) => `${sls}.${id}`));
    const comment = `One or more requisite failed: ${[...names].join(', ')}`;
    const result = uncalled(chunk, { result: false, comment }, this.#now);
    this.#tried.set(tagOf(chunk), this.#note(chunk, result));
  }

  #pass(chunk: Chunk, comment: string): void {
    const result = uncalled(chunk, { result: true, comment }, this.#now);
    const facts = { ...result.facts, __state_ran__: false };
    this.#note(chunk, { ...result, facts, didRun: false });
  }

  /** One whose function was not called has its number too. */
  #note(chunk: Chunk, result: StateResult): StateResult {
    const results = this.#trials.has(chunk) ? this.#tried : this.#results;
    results.set(tagOf(chunk), this.#options.caller.number(result));
    return result;
  }

  #failsHard(chunk: Chunk): boolean {
    if (this.#options.test || !isTrue(chunk.args.get('failhard'))) return false;
    return this.#results.get(tagOf(chunk))?.outcome.result === false;
  }

  get #now(): number {
    return this.#options.now();
  }
}

/** Where a state cannot be told of a change, to watch is to require. */
function withoutWatch(chunk: Chunk, { table }: StateCaller): Chunk {
  if (table.has(`${chunk.state}.mod_watch`)) return chunk;
  const args = new Map(chunk.args);
  for (const end of ['', '_any']) {
    const watched = args.get(`watch${end}`);
    if (watched === undefined) continue;
    args.delete(`watch${end}`);
    args.set(`require${end}`, [args.get(`require${end}`) ?? [], watched].flat());
  }
  return { ...chunk, args };
}

function circle(chunk: Chunk): StateResult {
  const outcome = { result: false, changes: {}, comment: 'Recursive requisite found' };
  return resultOf(chunk, outcome, placeOf(chunk));
}

function lostText(lost: ReadonlyMap<RequisiteKind, readonly Requisite[]>): string {
  const lines = Array.from(lost, ([kind, requisites]) => [
    `${' '.repeat(19)}${kind}:`,
    ...requisites.map(({ kind: key, name }) => `${' '.repeat(23)}${key}: ${name}`),
  ]);
  return `The following requisites were not found:\n${lines.flat().join('\n')}\n`;
}

// `retry` [salt/state.py verify_retry_data].

/** How often, and for what. */
interface Retry {
  readonly until: boolean;
  readonly attempts: number;
  /** Seconds between two attempts, and so many more at the most, by chance. */
  readonly interval: number;
  readonly splay: number;
}

const standard: Retry = { until: true, attempts: 2, interval: 30, splay: 0 };

/** What of an outcome is told, and how often the state was run for it. */
interface Attempted {
  readonly outcome: Outcome;
  readonly attempts: number;
}

/** @param said `undefined`: it is run once */
async function attempt(
  run: () => Promise<Outcome>,
  said: PlainData | undefined,
  { test, signal }: { readonly test: boolean; readonly signal: AbortSignal },
): Promise<Attempted> {
  let outcome = await run();
  if (said === undefined) return { outcome, attempts: 1 };
  const retry = readRetry(said);
  if (test)
    return { outcome: withComment(outcome, [outcome.comment, plan(retry)], '  '), attempts: 1 };
  const comments: string[] = [];
  while (outcome.result !== retry.until && comments.length + 1 < retry.attempts) {
    comments.push(reportOf(outcome, comments.length + 1));
    await sleep(pauseOf(retry), undefined, { signal });
    outcome = await run();
  }
  return {
    outcome: withComment(outcome, [...comments, outcome.comment], '\n'),
    attempts: comments.length + 1,
  };
}

function readRetry(said: PlainData): Retry {
  if (said === false) return { ...standard, attempts: 0 };
  if (!isPillarMap(said)) return standard;
  const number = (name: 'attempts' | 'interval' | 'splay'): number => {
    const value = said.get(name);
    return typeof value === 'number' ? Math.max(0, value) : standard[name];
  };
  const until = said.get('until');
  return {
    until: typeof until === 'boolean' ? until : standard.until,
    attempts: number('attempts'),
    interval: number('interval'),
    splay: number('splay'),
  };
}

function pauseOf({ interval, splay }: Retry): number {
  const more = splay === 0 ? 0 : randomInt(splay + 1);
  return Math.min((interval + more) * 1000, longestTimerMs);
}

function withComment(outcome: Outcome, parts: readonly string[], between: string): Outcome {
  return { ...outcome, comment: parts.join(between) };
}

function reportOf({ result, comment }: Outcome, attempts: number): string {
  const said = textOf(result);
  return `Attempt ${attempts}: Returned a result of "${said}", with the following comment: "${comment}"`;
}

function plan({ until, attempts, interval, splay }: Retry): string {
  return (
    `The state would be retried every ${interval} seconds (with a splay of up to ${splay} ` +
    `seconds) a maximum of ${attempts} times or until a result of ${textOf(until)} is returned`
  );
}

// `onlyif` and `unless`, as far as they need no command [salt/state.py _run_check].

/** Functions that conditions may call: those that templates have. */
export type ConditionFunctions = Readonly<Record<string, SaltFunction>>;

/** What would have to be run, or looked for, on the master. */
const notServed: readonly string[] = ['creates', 'check_cmd'];

/** One condition, and what it says of a state. */
interface Finding {
  readonly keeps: boolean;
  readonly comment: string;
}

/**
 * The outcome of a state that its conditions keep from being run; `undefined`: it is run.
 * @throws SlsError for a condition that needs a command, or a function that is not there
 */
function outcomeOfConditions(
  args: ReadonlyMap<string, PlainData>,
  functions: ConditionFunctions,
): Outcome | undefined {
  for (const name of notServed) {
    if (args.has(name)) throw new SlsError(`${name} is not served: this master runs no commands`);
  }
  const onlyIf = args.get('onlyif');
  const unless = args.get('unless');
  const findings: Finding[] = [];
  if (onlyIf !== undefined) findings.push(judgeOnlyIf(listOf(onlyIf), functions));
  if (unless !== undefined) findings.push(judgeUnless(listOf(unless), functions));
  if (!findings.some(({ keeps }) => keeps)) return undefined;
  const comment = findings.map((finding) => finding.comment).join('\n');
  const more: WireMap = { skip_watch: true };
  return { result: true, changes: {}, comment, more };
}

/** Every condition must hold. */
function judgeOnlyIf(conditions: readonly PlainData[], functions: ConditionFunctions): Finding {
  for (const condition of conditions) {
    const value = truthOf(condition, 'onlyif', functions);
    if (value === undefined) break;
    if (!value) return { keeps: true, comment: 'onlyif condition is false' };
  }
  return { keeps: false, comment: 'onlyif condition is true' };
}

/** All of them must hold for the state not to be run. */
function judgeUnless(conditions: readonly PlainData[], functions: ConditionFunctions): Finding {
  let keeps = false;
  for (const condition of conditions) {
    const value = truthOf(condition, 'unless', functions);
    if (value === undefined) break;
    if (!value) return { keeps: false, comment: 'unless condition is false' };
    keeps = true;
  }
  return { keeps, comment: `unless condition is ${keeps}` };
}

/** `undefined`: it says nothing that could be true or false. */
function truthOf(
  condition: PlainData,
  kind: string,
  functions: ConditionFunctions,
): boolean | undefined {
  if (typeof condition === 'string') {
    throw new SlsError(`${kind} with a command is not served: this master runs no commands`);
  }
  if (!isPillarMap(condition) || !condition.has('fun')) return undefined;
  return isTrue(partOf(callOf(condition, functions), condition.get('get_return')));
}

function callOf(condition: PillarMap, functions: ConditionFunctions): PlainData {
  const name = textOf(condition.get('fun') ?? null);
  const found = Object.hasOwn(functions, name) ? functions[name] : undefined;
  if (found === undefined) throw new SlsError(`'${name}' is not available.`);
  const given = [...condition].filter(([key]) => !ownKeys.has(key));
  const value = found(
    listOf(condition.get('args') ?? []),
    Object.fromEntries(given.map(([key, one]) => [textOf(key), one])),
  );
  return toPlain(toPython(value));
}

const ownKeys: ReadonlySet<PlainData> = new Set(['fun', 'args', 'get_return']);

function partOf(value: PlainData, path: PlainData | undefined): PlainData {
  if (path === undefined || path === null) return value;
  const found = traverseFacts(toWire(value), textOf(path).split(':'));
  return found === undefined ? null : fromWire(found);
}

function listOf(value: PlainData): readonly PlainData[] {
  return isList(value) ? value : [value];
}

// Validation of a chunk, with Salt's messages [salt/state.py verify_data].

export function verifyChunk(chunk: Chunk, table: StateTable): string[] {
  return [...nameProblems(chunk), ...functionProblems(chunk, table), ...circleProblems(chunk)];
}

function nameProblems({ name, sls }: Chunk): string[] {
  if (typeof name === 'string') return [];
  const place = sls === null ? '' : `in SLS '${sls}' `;
  return [`ID '${textOf(name)}' ${place}is not formed as a string, but is a ${typeName(name)}`];
}

function functionProblems({ state, fun, sls, args }: Chunk, table: StateTable): string[] {
  const full = `${state}.${fun}`;
  const found = table.get(full);
  if (found === undefined) {
    return sls === null
      ? [`Specified state '${full}' was not found`]
      : [`State '${full}' was not found in SLS '${sls}'`, `Reason: '${full}' is not available.`];
  }
  return (found.required ?? [])
    .filter((name) => !args.has(name))
    .map((name) => `Missing parameter ${name} for state ${full}`);
}

function circleProblems(chunk: Chunk): string[] {
  const kind = chunk.args.has('watch') ? 'watch' : 'require';
  return requisitesOf(chunk, kind)
    .filter(({ kind: state, name }) => state === chunk.state && isItself(chunk, name))
    .map(({ kind: state, name }) => {
      const requisite = textOf(new Map([[state, name]]));
      return `Recursive require detected in SLS ${chunk.sls} for require ${requisite} in ID ${chunk.id}`;
    });
}

function isItself({ id, name }: Chunk, pattern: string): boolean {
  return matchesGlob(textOf(name), pattern) || matchesGlob(id, pattern);
}

// Calling one state [salt/state.py call].

export interface StateCallerOptions {
  readonly table: StateTable;
  /** What conditions may call. */
  readonly conditions: ConditionFunctions;
  /** Nothing is to be changed. */
  readonly test: boolean;
  readonly signal: AbortSignal;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** What is done is written down there. */
  readonly journal: Journal | undefined;
  readonly log: Logger;
}

/** How a chunk is called. */
interface CallMode {
  /** Only to see whether it would change something: it is not counted as run. */
  readonly isTrial?: boolean;
  /** See `StateCall.changed`. */
  readonly changed?: readonly string[];
}

/** Counts what it calls, as the results tell. */
export class StateCaller {
  readonly #options: StateCallerOptions;
  #runNumber = 0;

  constructor(options: StateCallerOptions) {
    this.#options = options;
  }

  get table(): StateTable {
    return this.#options.table;
  }

  /** Gives a result the next number. */
  number(result: StateResult): StateResult {
    result.facts = { ...result.facts, __run_num__: this.#runNumber };
    this.#runNumber += 1;
    return result;
  }

  /** A state that has failed is a result too. */
  async call(chunk: Chunk, mode: CallMode = {}): Promise<StateResult> {
    const problems = verifyChunk(chunk, this.#options.table);
    if (problems.length > 0) {
      const outcome = failed(problems.map((problem) => `${problem}\n`).join(''));
      // As in Salt, without its place.
      return this.number(resultOf(chunk, outcome, {}));
    }
    if (mode.isTrial) {
      return resultOf(chunk, await this.#try(chunk, mode, undefined), placeOf(chunk));
    }
    return isTrue(chunk.args.get('parallel'))
      ? this.#beside(chunk, mode)
      : this.#inTurn(chunk, mode);
  }

  async #inTurn(chunk: Chunk, mode: CallMode): Promise<StateResult> {
    const { outcome, attempts, startedAt, endedAt } = await this.#settle(chunk, mode);
    const result = resultOf(chunk, outcome, {
      ...timing(startedAt, endedAt),
      ...placeOf(chunk),
    });
    this.#runNumber += attempts - 1;
    return this.number(result);
  }

  /** It is waited for when something depends on it, or at the end. */
  #beside(chunk: Chunk, mode: CallMode): StateResult {
    const started = { result: null, changes: {}, comment: 'Started in a separate process' };
    const result = this.number(resultOf(chunk, started, placeOf(chunk)));
    result.pending = this.#settle(chunk, mode).then(({ outcome, startedAt, endedAt }) => {
      result.outcome = outcome;
      result.facts = { ...result.facts, ...timing(startedAt, endedAt), __parallel__: true };
      result.pending = undefined;
    });
    return result;
  }

  /** Runs it, unless that was done at a member that is gone. */
  async #settle(chunk: Chunk, mode: CallMode): Promise<Settled> {
    const { now, journal } = this.#options;
    const step = journal?.next(tagOf(chunk));
    if (step?.settled !== undefined) return step.settled;
    const startedAt = now();
    const run = (): Promise<Outcome> => this.#try(chunk, mode, step);
    const attempted = await attempt(run, chunk.args.get('retry'), this.#options);
    const settled = { ...attempted, startedAt, endedAt: now() };
    await step?.settle(settled);
    return settled;
  }

  async #try(chunk: Chunk, mode: CallMode, step: JournalStep | undefined): Promise<Outcome> {
    const { signal, log } = this.#options;
    try {
      return await this.#run(chunk, mode, step);
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof SlsError) && codeOf(error) === undefined) {
        log.error({ fun: `${chunk.state}.${chunk.fun}`, err: error }, 'state failed');
      }
      const reason = error instanceof Error ? error.message : String(error);
      return failed(`An exception occurred in this state: ${reason}`);
    }
  }

  async #run(
    { state, fun, name, args, saltenv }: Chunk,
    { isTrial = false, changed = [] }: CallMode,
    step: JournalStep | undefined,
  ): Promise<Outcome> {
    const { table, conditions, test } = this.#options;
    const full = `${state}.${fun}`;
    const found = table.get(full);
    if (found === undefined) throw new SlsError(`'${full}' is not available.`);
    const given = givenTo(found, args, full);
    const kept = outcomeOfConditions(args, conditions);
    if (kept !== undefined) return kept;
    const environment = args.get('saltenv');
    return found.call({
      name: textOf(name),
      given,
      saltenv: typeof environment === 'string' ? environment : saltenv,
      test: test || isTrial,
      changed,
      step,
    });
  }
}
