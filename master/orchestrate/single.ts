/** One state without an SLS [salt/modules/state.py single]. */
import type { WireMap, WireValue } from '../../minion-protocol/index.ts';
import { splitFunction } from './data.ts';
import { type Chunk, tagOf } from './low-chunk.ts';
import type { SingleRequest } from './orchestrator.ts';
import { toWireResult } from './result.ts';
import type { StateCaller } from './state-caller.ts';
import { verifyChunk } from './verify-chunk.ts';

/** @returns what became of it by its tag, or what is wrong with it */
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
