import { MasterError } from '../errors.ts';
import type { JobUpdate } from './follow.ts';
import type { RunRequest } from './run.ts';

/** Publishes one job and follows it. */
type Run = (request: RunRequest) => AsyncIterable<JobUpdate>;

/**
 * Asks the target which functions it has, chooses among those that have this one, and runs the
 * job there [salt client/__init__.py cmd_subset]. Only the job itself is told.
 * @param random a whole number from 0 on, below its argument
 * @throws MasterError ERR_BAD_TGT, ERR_ARGS
 */
export async function* runSubset(
  run: Run,
  { subset = 1, ...request }: RunRequest,
  random: (below: number) => number,
): AsyncGenerator<JobUpdate, void, void> {
  if (!Number.isSafeInteger(subset) || subset < 1) {
    throw new MasterError('ERR_ARGS', 'subset is not a number of minions from 1 on');
  }
  const { fun, arg: _arg, kwarg: _kwarg, jid: _jid, ...question } = request;
  const having: string[] = [];
  for await (const update of run({ ...question, fun: 'sys.list_functions' })) {
    if (update.type !== 'return' || !Array.isArray(update.return)) continue;
    const functions = new Set(update.return);
    if ([fun].flat().every((name) => functions.has(name))) having.push(update.minion);
  }
  const { delimiter: _delimiter, ...job } = request;
  yield* run({ ...job, tgt: choose(having, subset, random), tgtType: 'list' });
}

function choose(
  ids: readonly string[],
  count: number,
  random: (below: number) => number,
): string[] {
  const left = [...ids];
  const chosen: string[] = [];
  while (chosen.length < count && left.length > 0) {
    chosen.push(...left.splice(random(left.length), 1));
  }
  return chosen;
}
