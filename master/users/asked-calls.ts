/** Converts requests of users to questions to the policy. */

import type { Call } from '#acl';
import { isKeywordText, pythonStr, type WireValue } from '#minion-protocol';
import { MasterError } from '../api/index.ts';
import { type BoundFunction, separateKeywords } from '../jobs/index.ts';

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
export function toBoundFunctions({ fun, arg = [], kwarg = {} }: AskedCalls): BoundFunction[] {
  if (typeof fun === 'string') return [bind(fun, arg, kwarg)];
  const lists = arg.map((list) => (Array.isArray(list) ? list : [list]));
  if (lists.length !== fun.length) {
    throw new MasterError('ERR_ARGS', 'arg is not a list of arguments for each function');
  }
  return fun.map((name, index) => bind(name, lists[index] ?? [], kwarg));
}

/** The same as rules see them. @throws MasterError ERR_ARGS */
export function toCalls(asked: AskedCalls): Call[] {
  return toBoundFunctions(asked).map(toCall);
}

function bind(
  fun: string,
  values: readonly WireValue[],
  given: Readonly<Record<string, WireValue>>,
): BoundFunction {
  const { arg, kwarg } = separateKeywords(values, given);
  // A minion would make a keyword of it.
  if (arg.some((value) => typeof value === 'string' && isKeywordText(value))) {
    throw new MasterError('ERR_ARGS', 'an argument looks like name=value; give it as a keyword');
  }
  return { fun, arg, kwarg };
}

function toCall({ fun, arg, kwarg }: BoundFunction): Call {
  let args: readonly string[] | undefined;
  let kwargs: ReadonlyMap<string, string> | undefined;
  // Few rules look at them, and they may be long.
  return {
    fun,
    get args() {
      args ??= arg.map(pythonStr);
      return args;
    },
    get kwargs() {
      kwargs ??= new Map(Object.entries(kwarg).map(([name, it]) => [name, pythonStr(it)]));
      return kwargs;
    },
  };
}
