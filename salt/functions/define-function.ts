/** Defines runners and wheel functions. */

import { type CallContext, MasterError, type MasterFunction } from '#master';
import type { WireMap, WireValue } from '#minion-protocol';
import type { Parameter, Parameters, ValuesOf } from './parameters.ts';

/**
 * Returns `{outputter, data}`. Salt prints `data` with this outputter. If `outputter` is
 * `undefined`, returns only `data`.
 */
export function withOutputter(outputter: string | undefined, data: WireValue): WireValue {
  return outputter === undefined ? data : { outputter, data };
}

/** Returns the error for invalid arguments of a function. */
export function refused(reason: string): MasterError {
  return new MasterError('ERR_ARGS', reason);
}

/**
 * Rejects calls of users who have logged in. Functions that run other functions use this check,
 * because users could otherwise run functions without a permission.
 * @throws MasterError ERR_ARGS if a user calls
 */
export function requireLocalCaller({ by }: Pick<CallContext, 'by'>): void {
  if (by !== undefined) throw refused('only available on the local socket of the master');
}

/** Definition of a runner or wheel function. */
export interface Definition<P extends Parameters> {
  /** One sentence of documentation. */
  readonly summary: string;
  readonly parameters: P;
  /** Whether keywords beyond the parameters are accepted. Default: they are rejected. */
  readonly takesMore?: true;
  /** Whether positional values beyond the parameters are accepted. Default: they are rejected. */
  readonly takesRest?: true;
  /**
   * Whether arguments and result are only for the caller. They are then left out of events, stored
   * jobs and the audit log. Default: they are published and stored.
   */
  readonly isConfidential?: true;
  /** Whether a returned value counts as success. Default: every value does. */
  readonly succeeds?: (value: WireValue) => boolean;
  readonly call: (
    values: ValuesOf<P>,
    context: CallContext,
    more: WireMap,
    rest: readonly WireValue[],
  ) => Promise<WireValue> | WireValue;
}

/** Functions by name, `module.function`. */
export type FunctionTable = Readonly<Record<string, MasterFunction>>;

/** Creates a function that parses and validates its arguments. */
export function masterFunction<const P extends Parameters>(
  definition: Definition<P>,
): MasterFunction {
  const { parameters, takesMore = false, takesRest = false, call, summary } = definition;
  const { isConfidential = false, succeeds = () => true } = definition;
  return {
    summary,
    signature: Object.entries(parameters).map(describe).join(', '),
    isConfidential,
    succeeds,
    takes: (name) => takesMore || Object.hasOwn(parameters, name),
    declares: (name) => Object.hasOwn(parameters, name),
    bind: (arg, kwarg) => {
      const count = takesRest ? Object.keys(parameters).length : arg.length;
      const rest = arg.slice(count);
      const { values, more } = bindArguments(parameters, arg.slice(0, count), kwarg, takesMore);
      // `values` has one parsed value for each parameter.
      return async (context) => call(values as ValuesOf<P>, context, more, rest);
    },
  };
}

function describe([name, { isRequired, fallback }]: [string, Parameter<unknown>]): string {
  return isRequired || fallback === undefined ? name : `${name}=${JSON.stringify(fallback)}`;
}

function bindArguments(
  parameters: Parameters,
  arg: readonly WireValue[],
  kwarg: Readonly<WireMap>,
  takesMore: boolean,
): { readonly values: Record<string, unknown>; readonly more: WireMap } {
  const names = Object.keys(parameters);
  if (arg.length > names.length) {
    throw refused(
      `too many positional arguments: got ${arg.length}, the maximum is ${names.length}`,
    );
  }
  const given = new Map(arg.map((value, index) => [names[index] ?? '', value]));
  const more: WireMap = Object.create(null);
  for (const [name, value] of Object.entries(kwarg)) {
    if (given.has(name)) throw refused(`the argument ${name} is given twice`);
    if (Object.hasOwn(parameters, name)) given.set(name, value);
    else if (takesMore) more[name] = value;
    else throw refused(`unknown argument ${name}`);
  }
  const values: Record<string, unknown> = Object.create(null);
  for (const [name, parameter] of Object.entries(parameters)) {
    values[name] = readArgument(name, parameter, given.get(name));
  }
  return { values, more };
}

function readArgument(name: string, parameter: Parameter<unknown>, given?: WireValue): unknown {
  const isGiven = given !== undefined && (given !== null || parameter.isRequired);
  if (!isGiven) {
    if (parameter.isRequired)
      throw refused(`the argument ${name} is missing; it must be ${parameter.expected}`);
    return parameter.fallback;
  }
  const value = parameter.parse(given);
  if (value === undefined) throw refused(`${name} must be ${parameter.expected}`);
  return value;
}
