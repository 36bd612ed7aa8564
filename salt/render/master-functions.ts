/** Template functions that call runners of the master [salt/modules/{saltutil,mine,sdb}.py]. */

import type { FunctionResult } from '#master';
import type { WireMap, WireValue } from '#minion-protocol';
import type { PlainData } from '#template';
import type { AskedFunctions } from './asked-functions.ts';
import { isGiven, map, type Named, takes, takesMore, text } from './function-arguments.ts';
import { fromWire, textOf, toWire } from './pillar-wire.ts';

/** A call of a runner by a template. */
export interface MasterCall {
  readonly fun: string;
  readonly arg: readonly WireValue[];
  readonly kwarg: WireMap;
}

/** Result of a {@link MasterCall}. */
type MasterCallResult = Pick<FunctionResult, 'fun' | 'jid' | 'return' | 'success'>;

/** Interfaces of the master that template functions use. */
export interface TemplateMaster {
  /**
   * Runs a runner.
   * @throws MasterError ERR_UNKNOWN_FUN, ERR_NOT_SERVED, ERR_ARGS, ERR_FORBIDDEN
   */
  readonly runRunner: (call: MasterCall) => Promise<MasterCallResult>;
  /** Writes a message of a template to the log of the master. */
  readonly log: (level: LogLevel, message: string) => void;
}

const logLevels = ['debug', 'info', 'warn', 'error', 'fatal'] as const;
type LogLevel = (typeof logLevels)[number];
/** Log levels that have another name in Salt. */
const saltLevels: Readonly<Record<string, LogLevel>> = { warning: 'warn', critical: 'fatal' };

/**
 * Returns the template functions that call runners or write to the log. Templates of pillar and of
 * orchestrations can call them.
 */
export function masterFunctions({ runRunner, log }: TemplateMaster): AskedFunctions {
  const call = async (fun: string, kwarg: WireMap): Promise<PlainData> => {
    return fromWire(returnOf(await runRunner({ fun, arg: [], kwarg })));
  };
  const levels = [
    ...logLevels.map((level) => [level, level] as const),
    ...Object.entries(saltLevels),
  ];
  return {
    'sdb.get': takes(['uri'], async ({ uri }) => call('sdb.get', { uri: text(uri, 'uri') })),
    'mine.get': takes(['tgt', 'fun', 'tgt_type'], async (given) => call('mine.get', wireOf(given))),
    'saltutil.runner': takesMore(
      ['name', 'arg', 'kwarg', 'full_return', 'saltenv'],
      async ({ name, arg, kwarg, full_return: isFull }, more) => {
        const result = await runRunner({
          fun: text(name, 'name'),
          arg: argumentsOf(arg),
          kwarg: { ...keywordsOf(kwarg), ...wireOf(more) },
        });
        const { jid, fun, return: value, success } = result;
        return isFull === true
          ? fromWire({ jid, fun, return: value, success })
          : fromWire(returnOf(result));
      },
    ),
    ...Object.fromEntries(
      levels.map(([name, level]) => [
        `log.${name}`,
        takes(['message'], async ({ message = '' }) => {
          log(level, textOf(message));
          return true;
        }),
      ]),
    ),
  };
}

/**
 * Returns the value of a runner call that succeeded.
 * @throws TypeError with the error of the runner, if the call failed
 */
function returnOf({ fun, return: value, success }: MasterCallResult): WireValue {
  if (success) return value;
  throw new TypeError(`the function ${fun} failed: ${textOf(fromWire(value))}`);
}

export function argumentsOf(arg: PlainData | undefined): WireValue[] {
  if (!isGiven(arg)) return [];
  return (Array.isArray(arg) ? arg : [arg]).map(toWire);
}

export function keywordsOf(kwarg: PlainData | undefined): WireMap {
  if (!isGiven(kwarg)) return {};
  const entries = Array.from(map(kwarg, 'kwarg'), ([key, value]) => [textOf(key), toWire(value)]);
  return Object.fromEntries(entries);
}

export function wireOf(given: Named): WireMap {
  return Object.fromEntries(Object.entries(given).map(([name, value]) => [name, toWire(value)]));
}
