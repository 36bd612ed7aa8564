/** The `mine` runner [salt/runners/mine.py]. */

import { limitOwnerOf, MasterError } from '#master';
import { type FunctionTable, masterFunction } from '../functions/define-function.ts';
import { anything, flag, optional, required, target, text } from '../functions/parameters.ts';
import {
  askMinions,
  jobsOfRequester,
  type MinionCalls,
  type RequesterTargets,
  targetOfRequester,
} from '../minion-calls.ts';
import type { MineReader } from './mine-reader.ts';

interface MineRunnerDeps extends MinionCalls {
  readonly mineReader: Pick<MineReader, 'read'>;
  readonly targets: RequesterTargets;
}

export function mineRunner(parts: MineRunnerDeps): FunctionTable {
  return {
    'mine.get': masterFunction({
      summary:
        'Returns the mine values of minions. fun names one function, or several separated by commas.',
      parameters: { tgt: required(target), fun: required(text), tgt_type: optional(text, 'glob') },
      call: async ({ tgt, fun, tgt_type: tgtType }, { by }) => {
        const query = { target: { tgt, tgtType }, fun };
        const requester = limitOwnerOf(by) ?? 'operator';
        const answer = await parts.mineReader.read(undefined, query, requester);
        if (answer.ok) return answer.value;
        throw new MasterError('ERR_ARGS', `cannot read the mine: ${answer.reason}`);
      },
    }),
    'mine.update': masterFunction({
      summary: 'Makes minions update their mine.',
      parameters: {
        tgt: required(target),
        tgt_type: optional(text, 'glob'),
        clear: optional(flag, false),
        mine_functions: optional(anything),
      },
      call: async ({ tgt, tgt_type: tgtType, clear, mine_functions: functions }, context) => {
        const kwarg = { clear, mine_functions: functions ?? null };
        const asked = { tgt, tgtType };
        // The minion calls each of `mine_functions`, so these are functions that the requester
        // chooses. The rights of the requester then limit the target.
        const [calls, target] =
          functions === undefined
            ? [parts, await targetOfRequester(asked, context, parts.targets)]
            : [jobsOfRequester(parts, context), asked];
        const request = { ...target, fun: 'mine.update', kwarg };
        const { returns } = await askMinions(calls, request, context);
        return Object.fromEntries(returns.map((one) => [one.minion, one.return]));
      },
    }),
  };
}
