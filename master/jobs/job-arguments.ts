/** Converts the arguments of a job to the form in which they are published [WIRE 11.1, 11.5]. */

import { isFunctionName, isWireMap, keywordNameOf, type WireValue } from '#minion-protocol';
import { MasterError } from '../api/index.ts';
import { jobLimits } from './limits.ts';

/** Maximum number of functions in one job. */
const maxFunctions = jobLimits.functions.perOwner ?? Infinity;

/** Functions and arguments as the caller passes them. */
interface Call {
  readonly fun: string | readonly string[];
  readonly arg?: readonly WireValue[];
  readonly kwarg?: Readonly<Record<string, WireValue>>;
}

/** Positional and keyword arguments of one function. */
interface SeparateArguments {
  readonly arg: readonly WireValue[];
  readonly kwarg: Readonly<Record<string, WireValue>>;
}

/** Key that marks a map as keyword arguments in Salt. */
const keywordMark = '__kwarg__';

/** Maximum number of keyword arguments of a call. Maps with many keys take long to copy. */
const maxKeywords = jobLimits.keywordArguments.perOwner ?? Infinity;

/** Maximum number of positional arguments of a call. Each of them is examined several times. */
const maxPositional = jobLimits.positionalArguments.perOwner ?? Infinity;

/**
 * Rejects a call with too many positional arguments.
 * @throws MasterError ERR_ARGS
 */
export function requireFewArguments(count: number): void {
  if (count <= maxPositional) return;
  const text = `a call may have at most ${maxPositional} positional arguments; put values into one list`;
  throw new MasterError('ERR_ARGS', text);
}

/**
 * Rejects a job with too many functions, or with none.
 * @throws MasterError ERR_ARGS
 */
export function requireFewFunctions({ length }: readonly string[]): void {
  if (length > 0 && length <= maxFunctions) return;
  throw new MasterError(
    'ERR_ARGS',
    `\`fun\` has ${length} names of functions; it must have 1 to ${maxFunctions}`,
  );
}

/**
 * Rejects a call with too many keyword arguments.
 * @throws MasterError ERR_ARGS
 */
export function requireFewKeywords(kwarg: object): void {
  if (Object.keys(kwarg).length <= maxKeywords) return;
  const text = `a call may have at most ${maxKeywords} keyword arguments; put values into one map`;
  throw new MasterError('ERR_ARGS', text);
}

/**
 * Separates positional and keyword arguments of one function. Callers may pass keyword arguments as
 * the last positional value: a map with `__kwarg__: true`. This key is removed.
 * @throws MasterError ERR_ARGS
 */
export function separateKeywords(
  arg: readonly WireValue[],
  kwarg: Readonly<Record<string, WireValue>> = {},
): SeparateArguments {
  requireFewArguments(arg.length);
  requireFewKeywords(kwarg);
  const last = arg.at(-1);
  if (!isWireMap(last) || last[keywordMark] !== true) return checkArguments({ arg, kwarg });
  requireFewKeywords(last);
  const { [keywordMark]: _mark, ...marked } = last;
  return checkArguments({ arg: arg.slice(0, -1), kwarg: { ...marked, ...kwarg } });
}

/**
 * Returns the arguments unchanged, or rejects them if a minion would interpret them differently
 * from the policy. Rejected are positional maps with the key `__kwarg__`, and keyword arguments
 * whose names begin with two underscores.
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
  const problem = `${keywordMark} is only allowed in the last value of arg, with the value true; use kwarg`;
  return new MasterError('ERR_ARGS', problem);
}

function reservedKeyword(name: string): MasterError {
  return new MasterError(
    'ERR_ARGS',
    `${name}: keywords that begin with __ are reserved for Salt; rename it`,
  );
}

function hasMark(value: WireValue): boolean {
  return isWireMap(value)
    ? Object.hasOwn(value, keywordMark)
    : value instanceof Map && value.has(keywordMark);
}

/**
 * Returns the field `arg` of a publication: the positional values, followed by the keyword
 * arguments as one map with `__kwarg__: true`. If there are several functions, the result contains
 * one list of arguments for each function.
 * @throws MasterError ERR_ARGS
 */
export function toArguments({ fun, arg = [], kwarg = {} }: Call): WireValue[] {
  if (typeof fun === 'string') {
    checkName(fun);
    return joinKeywords(separateKeywords(arg, kwarg));
  }
  for (const name of fun) checkName(name);
  if (Object.keys(kwarg).length > 0) {
    throw new MasterError(
      'ERR_ARGS',
      '`kwarg` is allowed for a single function only; for several functions, use `arg`',
    );
  }
  requireFewFunctions(fun);
  if (arg.length !== fun.length || !arg.every(Array.isArray)) {
    throw new MasterError('ERR_ARGS', '`arg` must contain one list of arguments for each function');
  }
  return arg.map((list) => joinKeywords(separateKeywords(list)));
}

/**
 * Appends the keyword arguments as one map with `__kwarg__: true`. This key is set last, so that no
 * keyword argument can replace it.
 */
export function joinKeywords({ arg, kwarg }: SeparateArguments): WireValue[] {
  return Object.keys(kwarg).length === 0 ? [...arg] : [...arg, { ...kwarg, [keywordMark]: true }];
}

function checkName(fun: string): void {
  if (isFunctionName(fun)) return;
  throw new MasterError(
    'ERR_ARGS',
    'fun is not a function name: it must have the form module.function',
  );
}
