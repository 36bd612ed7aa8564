import type { Call } from '#acl';
import { isKeywordText, pythonStr, type WireValue } from '#minion-protocol';
import { MasterError } from '../api/index.ts';
import {
  type BoundFunction,
  requireFewArguments,
  requireFewFunctions,
  separateKeywords,
} from '../jobs/index.ts';

/** Functions with their arguments, as a request contains them. */
export interface AskedCalls {
  readonly fun: string | readonly string[];
  readonly arg?: readonly WireValue[];
  readonly kwarg?: Readonly<Record<string, WireValue>>;
}

/**
 * Converts a request to a list of functions, each with its arguments.
 * @throws MasterError ERR_ARGS if a minion would interpret the arguments differently from the rules
 */
export function toBoundFunctions({ fun, arg = [], kwarg = {} }: AskedCalls): BoundFunction[] {
  if (typeof fun === 'string') return [bind(fun, arg, kwarg)];
  requireFewFunctions(fun);
  const lists = arg.map((list) => (Array.isArray(list) ? list : [list]));
  if (lists.length !== fun.length) {
    throw new MasterError('ERR_ARGS', '`arg` must contain one list of arguments for each function');
  }
  requireFewArguments(lists.reduce((count, { length }) => count + length, 0));
  return fun.map((name, index) => bind(name, lists[index] ?? [], kwarg));
}

/**
 * Converts a request to calls in the form that the rules of the policy use.
 * @throws MasterError ERR_ARGS
 */
export function toCalls(asked: AskedCalls): Call[] {
  return toBoundFunctions(asked).map(toCall);
}

function bind(
  fun: string,
  values: readonly WireValue[],
  given: Readonly<Record<string, WireValue>>,
): BoundFunction {
  const { arg, kwarg } = separateKeywords(values, given);
  // A minion would convert this text to a keyword argument.
  if (arg.some((value) => typeof value === 'string' && isKeywordText(value))) {
    throw new MasterError(
      'ERR_ARGS',
      'an argument has the form name=value; pass it as a keyword argument',
    );
  }
  return { fun, arg, kwarg };
}

function toCall({ fun, arg, kwarg }: BoundFunction): Call {
  let args: readonly string[] | undefined;
  let kwargs: ReadonlyMap<string, string> | undefined;
  // The texts are computed on demand, because few rules need them and they may be long.
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
