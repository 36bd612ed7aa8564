/** Defines runners and wheel functions. */

import { type CallContext, MasterError, type MasterFunction } from '#master';
import type { WireMap, WireValue } from '#minion-protocol';
import type { Parameter, Parameters, ValuesOf } from './parameters.ts';

/** `{outputter, data}`: the way in which a function asks for an outputter. */
export function withOutputter(outputter: string | undefined, data: WireValue): WireValue {
  return outputter === undefined ? data : { outputter, data };
}

/** What a function says of arguments that it does not take. */
export function refused(reason: string): MasterError {
  return new MasterError('ERR_ARGS', reason);
}

/** For functions that a right to would be one to others. @throws MasterError ERR_ARGS for users */
export function requireLocalCaller({ by }: Pick<CallContext, 'by'>): void {
  if (by !== undefined) throw refused('it is for the local interface alone');
}

/** A runner or wheel function as its author writes it. */
export interface Definition<P extends Parameters> {
  /** One sentence for whoever asks for documentation. */
  readonly summary: string;
  readonly parameters: P;
  /** Keywords beyond the parameters. Default: refused. */
  readonly takesMore?: true;
  /** Positional values beyond the parameters. Default: refused. */
  readonly takesRest?: true;
  /**
   * What it is given and what it returns are for the caller alone: not in events, in jobs that are
   * kept, or in the audit log. Default: they are told.
   */
  readonly isConfidential?: true;
  /** Whether what it returned is a success. Default: it is. */
  readonly succeeds?: (value: WireValue) => boolean;
  readonly call: (
    values: ValuesOf<P>,
    context: CallContext,
    more: WireMap,
    rest: readonly WireValue[],
  ) => Promise<WireValue> | WireValue;
}

/** Functions by name: `module.function`. */
export type FunctionTable = Readonly<Record<string, MasterFunction>>;

/** Makes a function that can be called with whatever somebody typed. */
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
      // Every parameter has been parsed under its name.
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
    throw refused(`${arg.length} positional arguments; at most ${names.length} are taken`);
  }
  const given = new Map(arg.map((value, index) => [names[index] ?? '', value]));
  const more: WireMap = Object.create(null);
  for (const [name, value] of Object.entries(kwarg)) {
    if (given.has(name)) throw refused(`${name} is given twice`);
    if (Object.hasOwn(parameters, name)) given.set(name, value);
    else if (takesMore) more[name] = value;
    else throw refused(`${name} is no argument of it`);
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
    if (parameter.isRequired) throw refused(`${name} is missing; expected ${parameter.expected}`);
    return parameter.fallback;
  }
  const value = parameter.parse(given);
  if (value === undefined) throw refused(`${name} is not ${parameter.expected}`);
  return value;
}
