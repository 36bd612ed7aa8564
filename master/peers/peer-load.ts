/** What a minion asks others, or the master, to run [WIRE 9.10]. */
import type { Call } from '../../acl/index.ts';
import { isWireMap, pythonStr, type WireMap, type WireValue } from '../../minion-protocol/index.ts';
import type { ArgumentReader } from '../arguments/argument-reader.ts';
import { type FunctionArguments, isKeywordText } from '../arguments/arguments.ts';
import { isFunctionName } from '../jobs/arguments.ts';
import type { TargetRequest } from '../targeting/parse.ts';

/** A function with its arguments as a minion will take them. */
export interface PeerCall {
  readonly fun: string;
  readonly arg: readonly WireValue[];
  readonly kwarg: Readonly<Record<string, WireValue>>;
}

/** Functions that one job may have. */
const maxFunctions = 100;

/** Characters of their names. */
const maxNames = 10_000;

/** Reads what is typed as arguments. */
export type WordReader = Pick<ArgumentReader, 'readWords'>;

/** The functions of a load, by themselves; `undefined`: they are none. */
export function functionsOf({ fun }: WireMap): readonly string[] | undefined {
  if (typeof fun !== 'string' || fun.length > maxNames) return undefined;
  const funs = fun.split(',');
  return funs.length <= maxFunctions && funs.every(isFunctionName) ? funs : undefined;
}

/** Calls of functions without their arguments, which need not be read to refuse them. */
export function bareCalls(funs: readonly string[]): readonly PeerCall[] {
  return funs.map((fun) => ({ fun, arg: [], kwarg: {} }));
}

/**
 * Functions with their arguments from a load: where there are several, each argument is a text with
 * the words of one function's. `undefined`: it cannot be read.
 */
export async function readCalls(
  funs: readonly string[],
  load: WireMap,
  reader: WordReader,
): Promise<readonly PeerCall[] | undefined> {
  const { arg } = load;
  if (!Array.isArray(arg)) return undefined;
  const noParse = textsOf(load.no_parse);
  const [first = ''] = funs;
  const ofEach: readonly (readonly WireValue[] | undefined)[] =
    funs.length === 1 ? [arg] : arg.map(toWords);
  if (ofEach.length !== funs.length) return undefined;
  const calls: PeerCall[] = [];
  for (const [index, inputs] of ofEach.entries()) {
    const call = inputs && (await readCall(funs[index] ?? first, inputs, noParse, reader));
    if (call === undefined) return undefined;
    calls.push(call);
  }
  return calls;
}

function toWords(value: WireValue): readonly string[] | undefined {
  return typeof value === 'string' ? value.split(/\s+/).filter(Boolean) : undefined;
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

async function readCall(
  fun: string,
  inputs: readonly WireValue[],
  noParse: readonly string[],
  reader: WordReader,
): Promise<PeerCall | undefined> {
  const typed = await tryToRead(
    reader,
    inputs.filter((input) => typeof input === 'string'),
    noParse,
  );
  if (typed === undefined) return undefined;
  const values = typed.arg.values();
  const arg: WireValue[] = [];
  const kwarg: Record<string, WireValue> = Object.assign(Object.create(null), typed.kwarg);
  for (const input of inputs) {
    if (typeof input === 'string') {
      if (!isKeywordText(input)) arg.push(values.next().value ?? null);
    } else {
      const keywords = markedKeywords(input);
      if (keywords === undefined) arg.push(input);
      else Object.assign(kwarg, keywords);
    }
  }
  // Minions would make keywords of these, which no rule has looked at as such.
  return arg.some(isHiddenKeyword) ? undefined : { fun, arg, kwarg };
}

/** Nothing of a load that takes too long to read is used. */
async function tryToRead(
  reader: WordReader,
  texts: readonly string[],
  noParse: readonly string[],
): Promise<FunctionArguments | undefined> {
  try {
    return await reader.readWords(texts, noParse);
  } catch {
    return undefined;
  }
}

/** `{__kwarg__: true, …}`, as programs send keywords. */
function markedKeywords(value: WireValue): WireMap | undefined {
  if (!isWireMap(value) || value.__kwarg__ !== true) return undefined;
  const { __kwarg__: _mark, ...keywords } = value;
  return keywords;
}

function isHiddenKeyword(value: WireValue): boolean {
  if (typeof value === 'string') return isKeywordText(value);
  return isWireMap(value) ? '__kwarg__' in value : value instanceof Map && value.has('__kwarg__');
}

function textsOf(value: WireValue | undefined): string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
}
