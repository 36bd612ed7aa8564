/**
 * Runners that call functions on minions and compare the results [salt/runners/salt.py, survey.py,
 * match.py].
 */

import {
  type CallContext,
  everyone,
  type Jobs,
  type MasterFunction,
  type RunRequest,
  workBudgetOf,
} from '#master';
import { pythonStrInSlices, type WireMap } from '#minion-protocol';
import type { WorkBudget } from '#runtime';
import { type FunctionTable, masterFunction } from '../functions/define-function.ts';
import {
  anything,
  map,
  optional,
  required,
  seconds,
  target,
  text,
} from '../functions/parameters.ts';
import { askMinions, jobsOfRequester } from '../minion-calls.ts';
import { lineDiffFrom } from './line-diff.ts';

/**
 * Estimated work for grouping one result, without comparing its characters, in steps of a
 * `WorkBudget`.
 */
const stepsOfPooling = 20;
/** Number of characters of a result that are compared in one step of a `WorkBudget`. */
const charactersPerStep = 16;

/** Functions of the job interface that these runners use. */
export interface AskJobs {
  readonly api: Pick<Jobs['api'], 'run'>;
  readonly targets: Pick<Jobs['targets'], 'resolveWithin'>;
}

export function askRunners(jobs: AskJobs): FunctionTable {
  return {
    'salt.execute': execute(jobs),
    'survey.hash': survey(
      jobs,
      'Runs a function on minions, and groups the minions by result.',
      async (pools) => pools,
    ),
    'survey.diff': survey(
      jobs,
      'Runs a function on minions, and groups them by result; other results are compared with the most common one.',
      withDifferences,
    ),
    'match.compound_matches': masterFunction({
      summary:
        'Returns whether a compound target matches a minion, by its stored grains; pillar terms match exact values only.',
      parameters: { expr: required(text), minion_id: required(text) },
      call: async ({ expr, minion_id: id }, { by }) => {
        const request = { tgt: expr, tgtType: 'compound' };
        const budget = workBudgetOf(by);
        const { minions } = await jobs.targets.resolveWithin(request, everyone, budget);
        return { res: minions.includes(id) ? id : false };
      },
    }),
  };
}

function execute(jobs: AskJobs): MasterFunction {
  return masterFunction({
    summary:
      'Runs a function on minions and returns each result, or False for a minion that did not return.',
    parameters: {
      tgt: required(target),
      fun: required(text),
      arg: optional(anything),
      timeout: optional(seconds),
      tgt_type: optional(text, 'glob'),
      ret: optional(text, ''),
      jid: optional(text, ''),
      kwarg: optional(map),
    },
    takesMore: true,
    call: (given, context, more) => {
      const { tgt, fun, arg, timeout, ret, jid, kwarg = {} } = given;
      const args = arg === undefined ? [] : Array.isArray(arg) ? arg : [arg];
      const request: RunRequest = {
        ...{ tgt, tgtType: given.tgt_type, fun, arg: args, kwarg: { ...more, ...kwarg } },
        ...(timeout === undefined ? {} : { timeoutSeconds: timeout }),
        ...(ret === '' ? {} : { ret }),
        ...(jid === '' ? {} : { jid }),
      };
      return returnsOf(jobs, request, context);
    },
  });
}

/** Returns the results by minion id. The value is `false` for a minion that did not return. */
async function returnsOf(
  { api }: AskJobs,
  request: RunRequest,
  context: CallContext,
): Promise<WireMap> {
  const asked = { user: context.user, ...request };
  const calls = jobsOfRequester({ jobs: api }, context);
  const { returns, silent } = await askMinions(calls, asked, context);
  const byId: WireMap = Object.create(null);
  for (const { minion, return: value } of returns) byId[minion] = value;
  for (const id of silent) byId[id] = false;
  return byId;
}

/** Minions that returned the same result. */
interface Pool {
  readonly pool: readonly string[];
  readonly result: string;
  /**
   * Difference between this result and the most common one. Absent if this is the most common
   * result.
   */
  readonly diff?: string;
}

function survey(
  jobs: AskJobs,
  summary: string,
  show: (pools: readonly Pool[], budget: WorkBudget) => Promise<readonly Pool[]>,
): MasterFunction {
  return masterFunction({
    summary,
    parameters: {
      tgt: required(text),
      fun: required(text),
    },
    takesMore: true,
    takesRest: true,
    call: async ({ tgt, fun }, context, more, rest) => {
      // All positional values belong to the function that runs on the minions, so these two
      // parameters must be keywords.
      const { survey_sort: sort, tgt_type: type, ...kwarg } = more;
      const tgtType = type === 'pcre' ? type : 'compound';
      const request = { tgt, tgtType, fun, arg: [...rest], kwarg };
      const budget = workBudgetOf(context.by);
      const pools = await poolsOf(await returnsOf(jobs, request, context), budget);
      const sign = sort === 'up' ? 1 : -1;
      pools.sort((left, right) => sign * (left.pool.length - right.pool.length));
      return (await show(pools, budget)).map((pool) => ({ ...pool, pool: [...pool.pool] }));
    },
  });
}

async function poolsOf(returns: WireMap, budget: WorkBudget): Promise<Pool[]> {
  const pools = new Map<string, string[]>();
  for (const id of Object.keys(returns).sort()) {
    const result = await pythonStrInSlices(returns[id] ?? null, budget);
    await budget.giveWayAfter(stepsOfPooling + result.length / charactersPerStep);
    const pool = pools.get(result);
    if (pool === undefined) pools.set(result, [id]);
    else pool.push(id);
  }
  return [...pools].map(([result, pool]) => ({ pool, result }));
}

async function withDifferences(
  pools: readonly Pool[],
  budget: WorkBudget,
): Promise<readonly Pool[]> {
  const [first, ...others] = pools;
  if (first === undefined) return pools;
  const diff = lineDiffFrom(first.result);
  const shown = [first];
  for (const each of others) {
    // Every minion may have a different result, so let other work run between the comparisons.
    await budget.giveWay();
    shown.push({ ...each, diff: diff(each.result) });
  }
  return shown;
}
