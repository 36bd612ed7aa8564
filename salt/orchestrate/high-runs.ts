/**
 * Implements the functions of the `state` runner that run, show or build high data [salt/state.py
 * call_high; salt/modules/state.py show_sls, single].
 */

import { MasterError } from '#master';
import type { WireMap, WireValue } from '#minion-protocol';
import type { PlainData } from '#template';
import type { PillarMap } from '../render/pillar-data.ts';
import { toWire } from '../render/pillar-wire.ts';
import type { Compilation } from './compile-sls.ts';
import { applyExclude, applyExtensions } from './extensions.ts';
import { type Body, type High, splitFunction } from './high-data.ts';
import { listenersOf } from './listeners.ts';
import { type Chunk, compileChunks, tagOf } from './low-chunk.ts';
import { turnRequisites } from './requisite-in.ts';
import { ChunkRun, type ChunkRunOptions } from './run-chunks.ts';
import type { StateCaller } from './state-caller.ts';
import { type StateResult, toWireResult } from './state-result.ts';
import { verifyChunk } from './verify-chunk.ts';
import { verifyHigh } from './verify-high.ts';

/** Options of a run of high data. */
interface HighRunOptions extends ChunkRunOptions {
  /** Maximum number of states in one run. */
  readonly maxStates: number;
}

/**
 * Runs high data.
 * @returns the result of each state by its tag, or errors in Salt's words
 * @throws MasterError ERR_ORCHESTRATION if there are too many states
 * @throws the reason of `signal`
 */
export async function runHigh(high: High, options: HighRunOptions): Promise<WireValue> {
  const problems = [...applyExtensions(high, high.extend, false), ...verifyHigh(high)];
  if (problems.length > 0) return problems;
  const turned = turnRequisites(high);
  applyExclude(high);
  if (turned.length > 0) return turned;
  const chunks = compileChunks(high);
  if (chunks.length > options.maxStates) {
    const reason = `orchestration rejected: it has ${chunks.length} states, the maximum is ${options.maxStates}`;
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

/**
 * Map whose only key is the master's id. Its value is a list of errors, or the declarations of the
 * SLS files: a map by their ids.
 */
export type ShownHigh = WireMap;

export function showHigh({ high, errors }: Compilation): WireValue {
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

/**
 * Runs one state without an SLS.
 * @returns the result of the state by its tag, or errors
 */
export async function runSingle(
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

/** A request to run one state without an SLS. */
export interface SingleRequest {
  readonly fun: string;
  readonly name: string;
  readonly test: boolean;
  readonly args: ReadonlyMap<string, PlainData>;
  readonly pillar: PillarMap;
}
