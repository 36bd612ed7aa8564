import type { Call } from '#acl';
import { isKeywordText, pythonStr, type WireValue } from '#minion-protocol';
import { MasterError } from '../api/index.ts';
import { separateKeywords } from '../jobs/index.ts';

/** Functions with their arguments, as a request states them. */
export interface AskedCalls {
  readonly fun: string | readonly string[];
  readonly arg?: readonly WireValue[];
  readonly kwarg?: Readonly<Record<string, WireValue>>;
}

/**
 * Converts a request to questions for the policy: its functions, each with its arguments.
 * @throws MasterError ERR_ARGS if a minion would interpret the arguments differently than the rules
 * do
 */
export function toCalls({ fun, arg = [], kwarg = {} }: AskedCalls): Call[] {
  if (typeof fun === 'string') return [toCall(fun, arg, kwarg)];
  const lists = arg.map((list) => (Array.isArray(list) ? list : [list]));
  if (lists.length !== fun.length) {
    throw new MasterError('ERR_ARGS', 'arg must contain one list of arguments for each function');
  }
  return fun.map((name, index) => toCall(name, lists[index] ?? [], kwarg));
}

function toCall(
  fun: string,
  values: readonly WireValue[],
  kwarg: Readonly<Record<string, WireValue>>,
): Call {
  const { arg: positional, kwarg: keywords } = separateKeywords(values, kwarg);
  // A minion would convert this text to a keyword.
  if (positional.some((value) => typeof value === 'string' && isKeywordText(value))) {
    throw new MasterError(
      'ERR_ARGS',
      'an argument has the form name=value; pass it as a keyword argument',
    );
  }
  let args: readonly string[] | undefined;
  let kwargs: ReadonlyMap<string, string> | undefined;
  // Computed on demand: few rules need them, and they may be long.
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
