/** What a user asks for, in the form in which rules look at it. */
import type { Call } from '../../acl/index.ts';
import { isWireMap, pythonStr, type WireValue } from '../../minion-protocol/index.ts';
import { isKeywordText } from '../arguments/arguments.ts';
import { MasterError } from '../errors.ts';

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
  const kwargs = new Map(Object.entries(kwarg).map(([name, value]) => [name, pythonStr(value)]));
  const args: string[] = [];
  for (const value of values) {
    if (isWireMap(value) && value.__kwarg__ === true) {
      for (const [name, inner] of Object.entries(value)) {
        if (name !== '__kwarg__') kwargs.set(name, pythonStr(inner));
      }
    } else if (isHiddenKeyword(value)) {
      throw new MasterError('ERR_ARGS', 'an argument looks like name=value; give it as a keyword');
    } else args.push(pythonStr(value));
  }
  return { fun, args, kwargs };
}

/** Whether a minion would make a keyword of it. */
function isHiddenKeyword(value: WireValue): boolean {
  if (typeof value === 'string') return isKeywordText(value);
  return isWireMap(value) ? '__kwarg__' in value : value instanceof Map && value.has('__kwarg__');
}
