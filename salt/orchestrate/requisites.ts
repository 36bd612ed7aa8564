/**
 * Evaluates requisites: whether a chunk may run
 * [salt/state.py check_requisite].
 */

import { MasterError } from '#master';
import type { PlainData } from '#template';
import { isList, isPillarMap } from '../render/pillar-data.ts';
import { textOf } from '../render/pillar-wire.ts';
import { firstOf, isGlob, matchesGlob, splitFunction } from './high-data.ts';
import { type Chunk, tagOf } from './low-chunk.ts';
import { hasChanges, type StateResult } from './state-result.ts';

/** Kinds of requisites that decide whether a state runs, in Salt's order. */
export const decisiveKinds: readonly RequisiteKind[] = [
  'require',
  'require_any',
  'watch',
  'watch_any',
  'prereq',
  'onfail',
  'onfail_any',
  'onfail_all',
  'onchanges',
  'onchanges_any',
];

/**
 * All kinds of requisites. `prerequired` is the reverse of `prereq`: a chunk has it if another
 * chunk's `prereq` refers to it.
 */
export const allKinds: readonly RequisiteKind[] = [...decisiveKinds, 'prerequired'];

/** Kind of a dependency between chunks. */
export type RequisiteKind =
  | 'require'
  | 'require_any'
  | 'watch'
  | 'watch_any'
  | 'prereq'
  | 'onfail'
  | 'onfail_any'
  | 'onfail_all'
  | 'onchanges'
  | 'onchanges_any'
  | 'prerequired';

/** Reference to a state or SLS: `{test: some id}`, `{id: some id}`, `{sls: some.sls}`. */
export interface Requisite {
  readonly kind: string;
  readonly name: string;
}

/**
 * Returns the requisites of one kind. Their argument should be a list, in which a bare name is an
 * id. As in Salt, if the argument is a text, each character counts as a name. If it is a map, each
 * key counts as a name. Requisites with these names usually fail, and the error lists the names.
 */
export function requisitesOf({ args, name }: Chunk, kind: RequisiteKind): readonly Requisite[] {
  return itemsOf(args.get(kind)).flatMap((item) => {
    const [key = 'id', value = null] = typeof item === 'string' ? ['id', item] : readItem(item);
    if (value === null) return [];
    if (typeof value !== 'string') throw strangeRequisite(key, name);
    return [{ kind: splitFunction(key)[0], name: value }];
  });
}

function itemsOf(said: PlainData | undefined): readonly PlainData[] {
  if (said === undefined || said === null) return [];
  if (isList(said)) return said;
  if (isPillarMap(said)) return [...said.keys()];
  return typeof said === 'string' ? [...said] : [said];
}

function readItem(item: PlainData): readonly [string?, PlainData?] {
  return firstOf(item) ?? [];
}

function strangeRequisite(key: string, name: PlainData): MasterError {
  const reason = `Could not locate requisite of [${key}] present in state with name [${textOf(name)}]`;
  return new MasterError('ERR_ORCHESTRATION', reason);
}

/**
 * Finds the chunks that a requisite refers to. An id or name is looked up in an index. The result
 * for an SLS or a glob is stored, so that the chunks are compared with each of them once.
 */
export class ChunkIndex {
  readonly #chunks: readonly Chunk[];
  /** Chunks by id and by name, in the order of the run. */
  readonly #byName = new Map<string, Set<Chunk>>();
  /** Results for requisites, by kind and name. */
  readonly #found = new Map<string, Map<string, readonly Chunk[]>>();

  constructor(chunks: readonly Chunk[]) {
    this.#chunks = chunks;
    for (const chunk of chunks) {
      for (const name of [chunk.id, textOf(chunk.name)]) {
        const named = this.#byName.get(name);
        if (named === undefined) this.#byName.set(name, new Set([chunk]));
        else named.add(chunk);
      }
    }
  }

  /** Returns the chunks that a requisite refers to. */
  meantBy({ kind, name }: Requisite): readonly Chunk[] {
    const known = this.#found.get(kind) ?? new Map<string, readonly Chunk[]>();
    this.#found.set(kind, known);
    const found = known.get(name) ?? this.#find(kind, name);
    known.set(name, found);
    return found;
  }

  #find(kind: string, name: string): readonly Chunk[] {
    if (kind === 'sls') {
      return this.#chunks.filter(
        ({ sls, includedFrom }) => includedFrom.includes(name) || matchesGlob(sls ?? '', name),
      );
    }
    const named = isGlob(name)
      ? this.#chunks.filter(({ id, name: own }) => {
          return matchesGlob(id, name) || matchesGlob(textOf(own), name);
        })
      : [...(this.#byName.get(name) ?? [])];
    return kind === 'id' ? named : named.filter(({ state }) => state === kind);
  }
}

/** Chunks (single states) on which another chunk depends, by kind of requisite. */
export type Dependencies = ReadonlyMap<RequisiteKind, readonly Chunk[]>;

/** Resolves the requisites of a chunk. Returns `undefined` if one of them has no match. */
export function dependenciesOf(
  chunk: Chunk,
  index: ChunkIndex,
  kinds: readonly RequisiteKind[],
): Dependencies | undefined {
  const dependencies = new Map<RequisiteKind, Chunk[]>();
  for (const kind of kinds) {
    const found = requisitesOf(chunk, kind).map((requisite) => index.meantBy(requisite));
    if (found.some(({ length }) => length === 0)) return undefined;
    dependencies.set(kind, found.flat());
  }
  return dependencies;
}

/** Combined status of all requisites of a chunk. */
export type Standing = 'met' | 'unmet' | 'fail' | 'pre' | 'onfail' | 'onchanges' | 'change';

/** Status of one dependency. */
type Finding = Standing | 'premet' | 'onchangesmet';

/**
 * Function that returns the result of the chunk with this tag, or `undefined` if the chunk has not
 * run yet. For the kind `prereq`, it returns the result of the trial run.
 */
export type ResultOf = (kind: RequisiteKind, tag: string) => StateResult | undefined;

/**
 * Combines the results of the dependencies into one status. Parallel states must have ended before
 * this call.
 */
export function standingBy(dependencies: Dependencies, resultOf: ResultOf): Standing {
  const all = new Set<Finding>();
  for (const [kind, chunks] of dependencies) {
    const findings = new Set(chunks.flatMap((chunk) => find(kind, resultOf(kind, tagOf(chunk)))));
    weigh(kind, findings);
    for (const finding of findings) all.add(finding);
  }
  return conclude(all);
}

function find(kind: RequisiteKind, result: StateResult | undefined): readonly Finding[] {
  if (result === undefined) return ['unmet'];
  const { outcome } = result;
  if (kind.startsWith('onfail')) {
    if (outcome.result === true) return ['onfail'];
  } else if (outcome.result === false) return ['fail'];
  if (kind.startsWith('onchanges')) return [hasChanges(result) ? 'onchangesmet' : 'onchanges'];
  if (kind.startsWith('watch') && hasChanges(result)) return ['change'];
  const ran: readonly Finding[] = result.didRun ? ['met'] : [];
  if (kind !== 'prereq') return kind === 'prerequired' && outcome.result !== null ? [] : ran;
  return outcome.result === null ? ['premet', ...ran] : ['pre'];
}

/**
 * Removes findings about single dependencies that do not decide whether the state runs. For
 * `onfail` and the kinds `…_any`, one suitable dependency is sufficient, so findings that would
 * prevent the run are removed. For `onfail_all`, all dependencies must have failed. If one
 * succeeded (the finding `onfail`), the finding `met` is removed, so that the state does not run.
 */
function weigh(kind: RequisiteKind, findings: Set<Finding>): void {
  if (kind.endsWith('_any') || kind === 'onfail') {
    if (findings.has('met') || findings.has('change')) findings.delete('fail');
    if (findings.has('onchangesmet')) {
      findings.delete('onchanges');
      findings.delete('fail');
    }
    if (findings.has('met')) findings.delete('onfail');
  }
  if (kind.endsWith('_all') && findings.has('onfail')) findings.delete('met');
}

function conclude(findings: ReadonlySet<Finding>): Standing {
  if (findings.has('unmet')) return 'unmet';
  if (findings.has('fail')) return 'fail';
  if (findings.has('pre')) return findings.has('premet') ? 'met' : 'pre';
  if (!findings.has('onchangesmet')) {
    if (findings.has('onfail')) return 'onfail';
    if (findings.has('onchanges')) return 'onchanges';
  }
  if (findings.has('change')) return 'change';
  return findings.has('onfail') ? 'onfail' : 'met';
}
