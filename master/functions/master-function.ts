/** Runners and wheel functions as their authors write them. */

import type { WireMap, WireValue } from '#minion-protocol';
import { type AuditRequester, MasterError } from '../api/index.ts';
import type { Parameter, Parameters, ValuesOf } from './parameters.ts';

/** `{outputter, data}`: the way in which a function asks for an outputter. */
export function withOutputter(outputter: string | undefined, data: WireValue): WireValue {
  return outputter === undefined ? data : { outputter, data };
}

/** A call, as it was asked for. */
export interface AskedCall {
  readonly fun: string;
  readonly arg: readonly WireValue[];
  readonly kwarg: Readonly<Record<string, WireValue>>;
}

/** What a function may know of the call that it serves. */
export interface CallContext {
  readonly asked: AskedCall;
  readonly jid: string;
  /** Who asked: an operator's name, or a minion's id. */
  readonly user: string;
  /** Who asked, and what permitted it, for the audit log; `undefined`: the local interface. */
  readonly by: AuditRequester | undefined;
  /** How long minions have to answer; `undefined`: the master's own. */
  readonly timeoutSeconds: number | undefined;
  /** Fires `<prefix>/<jid>/<suffix>`, for instance to tell how far it is. */
  readonly tell: (suffix: string, data: WireMap) => void;
  /** The master is being closed. */
  readonly closing: AbortSignal;
  /** Another member of the cluster goes on with it: what it returns is told to the caller alone. */
  readonly goesOnElsewhere: () => void;
  /** Calls this when its end was told, and is among the jobs. */
  readonly atEnd: (work: () => Promise<void>) => void;
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

/** A runner or wheel function. */
export interface MasterFunction {
  readonly summary: string;
  /** For instance `jid, returned=True`. */
  readonly signature: string;
  /** Whether it takes a keyword of this name. */
  readonly takes: (name: string) => boolean;
  /** Whether it has a parameter of this name, and does not only take whatever it is given. */
  readonly declares: (name: string) => boolean;
  /** See {@link Definition.isConfidential}. */
  readonly isConfidential: boolean;
  /** See {@link Definition.succeeds}. */
  readonly succeeds: (value: WireValue) => boolean;
  /** Checks the arguments. @throws MasterError ERR_ARGS */
  readonly bind: (arg: readonly WireValue[], kwarg: Readonly<WireMap>) => BoundCall;
}

/** A function with arguments that fit. */
export type BoundCall = (context: CallContext) => Promise<WireValue>;

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
    throw wrong(`${arg.length} positional arguments; at most ${names.length} are taken`);
  }
  const given = new Map(arg.map((value, index) => [names[index] ?? '', value]));
  const more: WireMap = Object.create(null);
  for (const [name, value] of Object.entries(kwarg)) {
    if (given.has(name)) throw wrong(`${name} is given twice`);
    if (Object.hasOwn(parameters, name)) given.set(name, value);
    else if (takesMore) more[name] = value;
    else throw wrong(`${name} is no argument of it`);
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
    if (parameter.isRequired) throw wrong(`${name} is missing; expected ${parameter.expected}`);
    return parameter.fallback;
  }
  const value = parameter.parse(given);
  if (value === undefined) throw wrong(`${name} is not ${parameter.expected}`);
  return value;
}

function wrong(reason: string): MasterError {
  return new MasterError('ERR_ARGS', reason);
}
