/** Arguments of a job, in the form in which it is published [WIRE 11.1, 11.5]. */

import { isFunctionName, isWireMap, keywordNameOf, type WireValue } from '#minion-protocol';
import { MasterError } from '../api/index.ts';

/** How many functions one job may have. */
const maxFunctions = 1000;

/** Functions and arguments as a caller gives them. */
interface Call {
  readonly fun: string | readonly string[];
  readonly arg?: readonly WireValue[];
  readonly kwarg?: Readonly<Record<string, WireValue>>;
}

/** Arguments of one function. */
interface SeparateArguments {
  readonly arg: readonly WireValue[];
  readonly kwarg: Readonly<Record<string, WireValue>>;
}

/** Salt's mark of a map that holds keywords. */
const keywordMark = '__kwarg__';

/**
 * Positional values and keywords of one function. Programs may give keywords as the last value, a
 * map with `__kwarg__: true`: the mark is taken off here.
 * @throws MasterError ERR_ARGS
 */
export function separateKeywords(
  arg: readonly WireValue[],
  kwarg: Readonly<Record<string, WireValue>> = {},
): SeparateArguments {
  const last = arg.at(-1);
  if (!isWireMap(last) || last[keywordMark] !== true) return checkArguments({ arg, kwarg });
  const { [keywordMark]: _mark, ...marked } = last;
  return checkArguments({ arg: arg.slice(0, -1), kwarg: { ...marked, ...kwarg } });
}

/**
 * Any other map with the mark, and keywords with the two underscores of Salt's own, would mean to
 * a minion what no rule has looked at.
 * @throws MasterError ERR_ARGS
 */
export function checkArguments(separate: SeparateArguments): SeparateArguments {
  const { arg, kwarg } = separate;
  if (arg.some(hasMark)) throw oddMark();
  const texts = arg.map((value) => (typeof value === 'string' ? keywordNameOf(value) : undefined));
  const reserved = [...Object.keys(kwarg), ...texts].find((name) => name?.startsWith('__'));
  if (reserved !== undefined) throw reservedKeyword(reserved);
  return separate;
}

function oddMark(): MasterError {
  const problem = `${keywordMark} is the mark of the last value of arg, and its value is true; use kwarg`;
  return new MasterError('ERR_ARGS', problem);
}

function reservedKeyword(name: string): MasterError {
  return new MasterError('ERR_ARGS', `${name}: keywords that begin with __ are Salt's own`);
}

function hasMark(value: WireValue): boolean {
  return isWireMap(value)
    ? Object.hasOwn(value, keywordMark)
    : value instanceof Map && value.has(keywordMark);
}

/**
 * The `arg` of a publication: positional values first, keywords as one last map with the mark; for
 * several functions such a list for each.
 * @throws MasterError ERR_ARGS
 */
export function toArguments({ fun, arg = [], kwarg = {} }: Call): WireValue[] {
  if (typeof fun === 'string') {
    checkName(fun);
    return joinKeywords(separateKeywords(arg, kwarg));
  }
  for (const name of fun) checkName(name);
  if (Object.keys(kwarg).length > 0) {
    throw new MasterError('ERR_ARGS', 'kwarg is for one function; for several, use arg');
  }
  if (fun.length === 0 || fun.length > maxFunctions) {
    throw new MasterError('ERR_ARGS', `fun is a list of ${fun.length}; expected 1 to 1000 names`);
  }
  if (arg.length !== fun.length || !arg.every(Array.isArray)) {
    throw new MasterError('ERR_ARGS', 'arg is not a list of arguments for each function');
  }
  return arg.map((list) => joinKeywords(separateKeywords(list)));
}

/** Keywords last, as one map with the mark, which no keyword stands in the place of. */
export function joinKeywords({ arg, kwarg }: SeparateArguments): WireValue[] {
  return Object.keys(kwarg).length === 0 ? [...arg] : [...arg, { ...kwarg, [keywordMark]: true }];
}

function checkName(fun: string): void {
  if (isFunctionName(fun)) return;
  throw new MasterError('ERR_ARGS', 'fun is not the name of a function; expected module.function');
}
