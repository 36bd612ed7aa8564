/**
 * Runs low chunks after their requisites, with `retry`, `onlyif` and `unless`
 * [salt/state.py call_chunks, call_chunk].
 */

import { MasterError } from '#master';
import { textOf } from '../render/pillar-wire.ts';
import { type Chunk, placeOf, tagOf } from './low-chunk.ts';
import {
  allKinds,
  ChunkIndex,
  type Dependencies,
  decisiveKinds,
  dependenciesOf,
  type Requisite,
  type RequisiteKind,
  requisitesOf,
  type Standing,
  standingBy,
} from './requisites.ts';
import type { StateCaller } from './state-caller.ts';
import { isTrue } from './state-function.ts';
import { hasChanges, type Results, resultOf, type StateResult, uncalled } from './state-result.ts';

export interface ChunkRunOptions {
  readonly caller: StateCaller;
  readonly test: boolean;
  readonly signal: AbortSignal;
  /** Returns whether the run must stop before the state with this id. Default: it never stops. */
  readonly isKilled?: (id: string) => boolean;
  /** Returns milliseconds since 1970. */
  readonly now: () => number;
}

/**
 * Maximum number of consecutive evaluations of one chunk. A chunk is evaluated again after its
 * dependencies have run.
 */
const maxLooks = 20;

/**
 * Maximum depth of nested evaluations along a chain of requisites. A deeper chain is treated as a
 * cycle. Salt has the same maximum, the recursion limit of Python. In a run of more than 500
 * chunks, the maximum is twice the number of chunks. A chain without a cycle is never deeper.
 */
const maxDepth = 1000;

/**
 * Maximum number of evaluations in a run, divided by the number of its chunks. A run without a
 * cycle needs two or three evaluations per chunk.
 */
const maxEvaluations = 1000;

/** Counters for one evaluation of a chunk (single state). They detect cycles of requisites. */
interface Path {
  /** Number of times that the same chunk was evaluated directly before the present evaluation. */
  readonly looks: number;
  /**
   * Number of evaluations that have started, and cannot continue until this evaluation has ended.
   */
  readonly depth: number;
}

/** One run of a list of chunks. */
export class ChunkRun {
  readonly #options: ChunkRunOptions;
  readonly #chunks: readonly Chunk[];
  readonly #index: ChunkIndex;
  readonly #results = new Map<string, StateResult>();
  /** Results of trial runs for `prereq`. */
  readonly #tried = new Map<string, StateResult>();
  /** Chunks that must be run as a trial before they are run, because a `prereq` refers to them. */
  readonly #trials = new Set<Chunk>();
  /**
   * Chunks that have a `prereq` requisite. Such a chunk and the chunks that its requisite names
   * depend on each other (`prereq` and `prerequired`).
   */
  readonly #awaited = new Set<Chunk>();
  /**
   * Tags of the chunks that led to the current chunk through requisites. If a tag would occur
   * twice, the requisites form a cycle.
   */
  #active = new Set<string>();
  #isStopped = false;
  #evaluations = 0;

  constructor(chunks: readonly Chunk[], options: ChunkRunOptions) {
    this.#options = options;
    this.#chunks = chunks.map((chunk) => withoutWatch(chunk, options.caller));
    this.#index = new ChunkIndex(this.#chunks);
  }

  /**
   * Runs all chunks.
   * @throws the reason of `signal`
   */
  async run(): Promise<Results> {
    for (const chunk of this.#chunks) {
      if (this.#isStopped) break;
      this.#options.signal.throwIfAborted();
      if (!this.#results.has(tagOf(chunk))) {
        if (this.#options.isKilled?.(textOf(chunk.id)) === true) break;
        await this.#reach(chunk, { looks: 0, depth: 0 });
        if (this.#failsHard(chunk)) break;
        // Some cycles through `prereq` end without a result.
        if (!this.#isStopped && !this.#results.has(tagOf(chunk))) {
          this.#results.set(tagOf(chunk), this.#options.caller.number(circle(chunk)));
        }
      }
      this.#active = new Set();
    }
    await this.#settle(this.#results.values());
    this.#options.signal.throwIfAborted();
    return this.#results;
  }

  /** Runs a chunk (a single state) after the chunks on which it depends. */
  async #reach(chunk: Chunk, path: Path): Promise<void> {
    this.#options.signal.throwIfAborted();
    this.#evaluations += 1;
    const isEndless =
      path.depth > Math.max(maxDepth, 2 * this.#chunks.length) ||
      this.#evaluations > maxEvaluations * this.#chunks.length;
    if (isEndless) {
      const reason = `orchestration ended: the requisites of ${tagOf(chunk)} form a cycle; remove one of them`;
      throw new MasterError('ERR_ORCHESTRATION', reason);
    }
    if (requisitesOf(chunk, 'prerequired').length === 0) this.#active.add(tagOf(chunk));
    const dependencies = dependenciesOf(chunk, this.#index, this.#kindsOf(chunk));
    const standing = await this.#standing(dependencies);
    if (dependencies === undefined || standing === 'unmet') await this.#reachOthers(chunk, path);
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

  async #reachOthers(chunk: Chunk, { looks, depth }: Path): Promise<void> {
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
      await this.#reach(other, { looks: 0, depth: depth + 1 });
      if (!this.#failsHard(other)) continue;
      this.#isStopped = true;
      return;
    }
    if (this.#trials.has(chunk)) await this.#try(chunk);
    else if (looks + 1 >= maxLooks) {
      const result = circle(chunk);
      this.#options.caller.numberAsNext(result);
      this.#results.set(tagOf(chunk), result);
    } else await this.#reach(chunk, { looks: looks + 1, depth: depth + 1 });
  }

  /**
   * Finds the chunks to which the requisites of a chunk refer. Also returns the requisites that
   * refer to no chunk. Marks each chunk to which a `prereq` refers: a trial run then predicts its
   * changes before it really runs.
   */
  #lookFor(chunk: Chunk): {
    readonly found: readonly Chunk[];
    readonly lost: ReadonlyMap<RequisiteKind, readonly Requisite[]>;
  } {
    const found: Chunk[] = [];
    const lost = new Map<RequisiteKind, Requisite[]>();
    for (const kind of this.#kindsOf(chunk)) {
      for (const requisite of requisitesOf(chunk, kind)) {
        const meant = this.#index.meantBy(requisite);
        if (meant.length === 0) lost.set(kind, [...(lost.get(kind) ?? []), requisite]);
        if (kind === 'prereq') for (const one of meant) this.#trials.add(one);
        if (kind === 'prerequired') for (const one of meant) this.#awaited.add(one);
        found.push(...meant);
      }
    }
    return { found, lost };
  }

  /**
   * Handles a dependency on a chunk (a state) that is already being evaluated. With `prereq`, two
   * chunks depend on each other. One of them then runs as a trial, which makes no changes. Any
   * other such dependency is a cycle, and the chunk fails.
   */
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
    const dependencies = dependenciesOf(chunk, this.#index, decisiveKinds);
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

  /**
   * Assigns the next run number (`__run_num__`) to a result and stores it. A result gets a number
   * even if the function of the chunk was not called.
   */
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

/** Replaces `watch` with `require` for states without `mod_watch`. */
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
