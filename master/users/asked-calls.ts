/** Converts requests of users to questions to the policy. */

import type { Call } from '#acl';
import { isKeywordText, pythonStr, type WireValue } from '#minion-protocol';
import { MasterError } from '../api/index.ts';
import { separateKeywords } from '../jobs/index.ts';

/** Functions with their arguments, as requests have them. */
export interface AskedCalls {
  readonly fun: string | readonly string[];
  readonly arg?: readonly WireValue[];
  readonly kwarg?: Readonly<Record<string, WireValue>>;
}

/**
 * The functions of a request, each with its own arguments.
 * @throws MasterError ERR_ARGS for what a minion would take for something else than rules do
 */
export function toCalls({ fun, arg = [], kwarg = {} }: AskedCalls): Call[] {
  if (typeof fun === 'string') return [toCall(fun, arg, kwarg)];
  const lists = arg.map((list) => (Array.isArray(list) ? list : [list]));
  if (lists.length !== fun.length) {
    throw new MasterError('ERR_ARGS', 'arg is not a list of arguments for each function');
  }
  return fun.map((name, index) => toCall(name, lists[index] ?? [], kwarg));
}

function toCall(
  fun: string,
  values: readonly WireValue[],
  kwarg: Readonly<Record<string, WireValue>>,
): Call {
  const { arg: positional, kwarg: keywords } = separateKeywords(values, kwarg);
  // A minion would make a keyword of it.
  if (positional.some((value) => typeof value === 'string' && isKeywordText(value))) {
    throw new MasterError('ERR_ARGS', 'an argument looks like name=value; give it as a keyword');
  }
  let args: readonly string[] | undefined;
  let kwargs: ReadonlyMap<string, string> | undefined;
  // Few rules look at them, and they may be long.
  return {
    fun,
    get args() {
      args ??= positional.map(pythonStr);
      return args;
    },
    get kwargs() {
      kwargs ??= new Map(Object.entries(keywords).map(([name, it]) => [name, pythonStr(it)]));
      return kwargs;
    },
  };
}
