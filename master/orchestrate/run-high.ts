/** Runs high data to their end [salt/state.py call_high]. */
import type { WireMap, WireValue } from '../../minion-protocol/index.ts';
import { MasterError } from '../errors.ts';
import { ChunkRun, type ChunkRunOptions } from './chunk-run.ts';
import { applyExclude } from './exclude.ts';
import { applyExtensions } from './extend.ts';
import type { High } from './high.ts';
import { listenersOf } from './listen.ts';
import { compileChunks } from './low-chunk.ts';
import { turnRequisites } from './requisite-in.ts';
import { type StateResult, toWireResult } from './result.ts';
import { verifyHigh } from './verify-high.ts';

/** How high data are run. */
export interface HighRunOptions extends ChunkRunOptions {
  /** States that it may have. */
  readonly maxStates: number;
}

/**
 * @returns what became of each state by its tag; or what is wrong with the data, in Salt's words
 * @throws MasterError ERR_ORCHESTRATION for too many states; what the signal says
 */
export async function runHigh(high: High, options: HighRunOptions): Promise<WireValue> {
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
