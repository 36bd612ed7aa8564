/** Runners that have minions do something, and compare what they return [salt/runners/salt.py, survey.py, match.py]. */

import {
  toPythonValue,
  unboundedStr,
  type WireMap,
  type WireValue,
} from '../../minion-protocol/index.ts';
import type { RunRequest } from '../api/index.ts';
import { everyone, type Jobs } from '../jobs/index.ts';
import {
  anything,
  type CallContext,
  type FunctionTable,
  type MasterFunction,
  map,
  masterFunction,
  optional,
  required,
  seconds,
  target,
  text,
} from './caller.ts';
import { formatLineDiff } from './line-diff.ts';

export function askRunners(jobs: Jobs): FunctionTable {
  return {
    'salt.execute': execute(jobs),
    'survey.hash': survey(
      jobs,
      'Runs a function on minions; those that return the same are listed together.',
      (pools) => pools,
    ),
    'survey.diff': survey(
      jobs,
      'The same, and how what the others return differs from what most return.',
      withDifferences,
    ),
    'match.compound_matches': masterFunction({
      summary: 'Whether a compound target means a minion for certain; pillar is compared exactly.',
      parameters: { expr: required(text), minion_id: required(text) },
      call: ({ expr, minion_id: id }) => {
        const request = { tgt: expr, tgtType: 'compound' };
        const isMatched = jobs.targets.resolveWithin(request, everyone).includes(id);
        return { res: isMatched ? id : false };
      },
    }),
  };
}

function execute(jobs: Jobs): MasterFunction {
  return masterFunction({
    summary:
      'Runs a function on minions and returns what each returned; False of those that did not.',
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

/** By id; `false` of those that did not return. */
async function returnsOf(
  { api }: Jobs,
  request: RunRequest,
  { closing, timeoutSeconds, user }: CallContext,
): Promise<WireMap> {
  const returns: WireMap = Object.create(null);
  const timeout = timeoutSeconds === undefined ? {} : { timeoutSeconds };
  for await (const update of api.run({ ...timeout, user, ...request }, closing)) {
    if (update.type === 'return') returns[update.minion] = update.return;
    if (update.type !== 'finished') continue;
    for (const id of [...update.silent, ...update.reconnecting]) returns[id] = false;
  }
  return returns;
}

/** Minions that return the same. */
interface Pool {
  readonly pool: readonly string[];
  readonly result: string;
}

function survey(
  jobs: Jobs,
  summary: string,
  show: (pools: readonly Pool[]) => readonly Pool[],
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
      // Positional values are all the function's, so these two are keywords.
      const { survey_sort: sort, tgt_type: type, ...kwarg } = more;
      const tgtType = type === 'pcre' ? type : 'compound';
      const request = { tgt, tgtType, fun, arg: [...rest], kwarg };
      const pools = poolsOf(await returnsOf(jobs, request, context));
      const sign = sort === 'up' ? 1 : -1;
      pools.sort((left, right) => sign * (left.pool.length - right.pool.length));
      return show(pools).map((pool) => ({ ...pool, pool: [...pool.pool] }));
    },
  });
}

function poolsOf(returns: WireMap): Pool[] {
  const pools = new Map<string, string[]>();
  for (const id of Object.keys(returns).sort()) {
    const result = textOf(returns[id] ?? null);
    pools.set(result, [...(pools.get(result) ?? []), id]);
  }
  return [...pools].map(([result, pool]) => ({ pool, result }));
}

function textOf(value: WireValue): string {
  return typeof value === 'string' ? value : unboundedStr(toPythonValue(value));
}

function withDifferences(pools: readonly Pool[]): readonly Pool[] {
  const [first] = pools;
  if (first === undefined) return pools;
  return pools.map((each) =>
    each === first ? each : { ...each, diff: formatLineDiff(first.result, each.result) },
  );
}
