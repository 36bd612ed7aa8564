import type { Call } from '#acl';
import { pythonStr, type WireValue } from '#minion-protocol';

/** Function of a job with its arguments, as a minion receives them. */
export interface BoundFunction {
  readonly fun: string;
  readonly arg: readonly WireValue[];
  readonly kwarg: Readonly<Record<string, WireValue>>;
}

/**
 * Converts a function and its arguments to the form in which policy rules match them: each value as
 * the text that Python's `str` would produce.
 */
export function callOf({ fun, arg, kwarg }: BoundFunction): Call {
  const kwargs = Object.entries(kwarg).map(([name, value]) => [name, pythonStr(value)] as const);
  return { fun, args: arg.map(pythonStr), kwargs: new Map(kwargs) };
}
