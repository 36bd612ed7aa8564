/** What a minion asks others, or the master, to run [WIRE 9.10]. */
import type { Call } from '../../acl/index.ts';
import { pythonStr, type WireMap, type WireValue } from '../../minion-protocol/index.ts';
import { isKeywordText, parseArguments } from '../arguments/arguments.ts';
import { MasterError } from '../errors.ts';
import { checkArguments, isFunctionName, separateKeywords } from '../jobs/arguments.ts';
import type { TargetRequest } from '../targeting/parse.ts';

/** A function with its arguments as a minion will take them. */
export interface PeerCall {
  readonly fun: string;
  readonly arg: readonly WireValue[];
  readonly kwarg: Readonly<Record<string, WireValue>>;
}

/** Functions that one job may have. */
const maxFunctions = 100;

/**
 * The functions of a load with their arguments: several are separated by commas, and then each
 * argument is a text with the words of one function's. `undefined`: it cannot be read.
 */
export function readCalls(load: WireMap): readonly PeerCall[] | undefined {
  const { fun, arg } = load;
  if (typeof fun !== 'string' || !Array.isArray(arg)) return undefined;
  const noParse = textsOf(load.no_parse);
  if (!fun.includes(',')) {
    const call = readCall(fun, arg, noParse);
    return call && [call];
  }
  const funs = fun.split(',');
  if (funs.length > maxFunctions || arg.length !== funs.length) return undefined;
  const calls = funs.map((name, index) => {
    const words = arg[index];
    if (typeof words !== 'string') return undefined;
    return readCall(name, words.split(/\s+/).filter(Boolean), noParse);
  });
  return calls.every((call) => call !== undefined) ? calls : undefined;
}

/** Its target; `undefined` when it has none that can be read. */
export function readTarget({ tgt, tgt_type: type }: WireMap): TargetRequest | undefined {
  const isList = Array.isArray(tgt) && tgt.every((id) => typeof id === 'string');
  if (typeof tgt !== 'string' && !isList) return undefined;
  if (type === undefined || type === null) return { tgt };
  if (typeof type !== 'string') return undefined;
  return { tgt, tgtType: type.startsWith('node') ? 'nodegroup' : type.toLowerCase() };
}

/** The call as rules look at it. */
export function toCall({ fun, arg, kwarg }: PeerCall): Call {
  const kwargs = Object.entries(kwarg).map(([name, value]) => [name, pythonStr(value)] as const);
  return { fun, args: arg.map(pythonStr), kwargs: new Map(kwargs) };
}

function readCall(
  fun: string,
  inputs: readonly WireValue[],
  noParse: readonly string[],
): PeerCall | undefined {
  if (!isFunctionName(fun)) return undefined;
  try {
    const given = separateKeywords(inputs);
    const arg: WireValue[] = [];
    const kwarg: Record<string, WireValue> = { ...given.kwarg };
    for (const input of given.arg) {
      const parsed = typeof input === 'string' ? parseArguments([input], noParse) : undefined;
      Object.assign(kwarg, parsed?.kwarg);
      arg.push(...(parsed?.arg ?? [input]));
    }
    // Minions would make keywords of these, which no rule has looked at as such.
    if (arg.some((value) => typeof value === 'string' && isKeywordText(value))) return undefined;
    return { fun, ...checkArguments({ arg, kwarg }) };
  } catch (error) {
    if (error instanceof MasterError) return undefined;
    throw error;
  }
}

function textsOf(value: WireValue | undefined): string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
}
