/** What a job asks of a minion, in the form in which it is published [WIRE 11.1, 11.5]. */
import type { WireValue } from '../../minion-protocol/index.ts';
import { MasterError } from '../errors.ts';

const functionName = /^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$/;

/** How many functions one job may have. */
const maxFunctions = 1000;

/** Functions and arguments as a caller gives them. */
interface Call {
  readonly fun: string | readonly string[];
  readonly arg?: readonly WireValue[];
  readonly kwarg?: Readonly<Record<string, WireValue>>;
}

/**
 * The `arg` of a publication: positional values first, keywords as one last map with the mark; for
 * several functions such a list for each.
 * @throws MasterError ERR_ARGS
 */
export function toArguments({ fun, arg = [], kwarg = {} }: Call): WireValue[] {
  const keywords = Object.entries(kwarg);
  if (typeof fun === 'string') {
    checkName(fun);
    if (keywords.length === 0) return [...arg];
    return [...arg, { __kwarg__: true, ...Object.fromEntries(keywords) }];
  }
  for (const name of fun) checkName(name);
  if (keywords.length > 0) {
    throw new MasterError('ERR_ARGS', 'kwarg is for one function; for several, use arg');
  }
  if (fun.length === 0 || fun.length > maxFunctions) {
    throw new MasterError('ERR_ARGS', `fun is a list of ${fun.length}; expected 1 to 1000 names`);
  }
  if (arg.length !== fun.length || !arg.every(Array.isArray)) {
    throw new MasterError('ERR_ARGS', 'arg is not a list of arguments for each function');
  }
  return [...arg];
}

/** Whether text is the name of a function: `module.function`. */
export function isFunctionName(fun: string): boolean {
  return functionName.test(fun);
}

function checkName(fun: string): void {
  if (isFunctionName(fun)) return;
  throw new MasterError('ERR_ARGS', 'fun is not the name of a function; expected module.function');
}
