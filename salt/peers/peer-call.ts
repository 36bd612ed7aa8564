/** Reads the requests of minions for jobs and runners [WIRE 9.10]. */

import {
  type ArgumentReader,
  type BoundFunction,
  checkArguments,
  type FunctionArguments,
  type Jobs,
  MasterError,
  separateKeywords,
  type TargetRequest,
} from '#master';
import { isFunctionName, isKeywordText, type WireMap, type WireValue } from '#minion-protocol';

export type TargetReach = Parameters<Jobs['targets']['resolveWithin']>[1];

/** Maximum number of functions in one job. */
const maxFunctions = 100;

/** Maximum total length of the function names, in characters. */
const maxNames = 10_000;

/** Parser of command-line style arguments. */
export type WordReader = Pick<ArgumentReader, 'readWords'>;

/** Parser for the arguments that a minion sent, and the id of this minion. */
interface MinionReader {
  readonly reader: WordReader;
  readonly minionId: string;
}

/** Returns the function names in a request, or `undefined` if they are invalid. */
export function functionsOf({ fun }: WireMap): readonly string[] | undefined {
  if (typeof fun !== 'string' || fun.length > maxNames) return undefined;
  const funs = fun.split(',');
  return funs.length <= maxFunctions && funs.every(isFunctionName) ? funs : undefined;
}

/**
 * Returns calls without arguments, for a request that the rules reject because of its functions.
 * The arguments of such a request are not parsed.
 */
export function bareCalls(funs: readonly string[]): readonly BoundFunction[] {
  return funs.map((fun) => ({ fun, arg: [], kwarg: {} }));
}

/**
 * Reads functions and their arguments from a request. If the request names several functions, each
 * element of its `arg` is a text with all arguments of one function. Returns `undefined` if the
 * arguments cannot be parsed.
 */
export async function readCalls(
  funs: readonly string[],
  load: WireMap,
  by: MinionReader,
): Promise<readonly BoundFunction[] | undefined> {
  const { arg } = load;
  if (!Array.isArray(arg)) return undefined;
  const noParse = textsOf(load.no_parse);
  const [first = ''] = funs;
  const ofEach: readonly (readonly WireValue[] | undefined)[] =
    funs.length === 1 ? [arg] : arg.map(toWords);
  if (ofEach.length !== funs.length) return undefined;
  const calls: BoundFunction[] = [];
  for (const [index, inputs] of ofEach.entries()) {
    const call = inputs && (await readCall(funs[index] ?? first, inputs, noParse, by));
    if (call === undefined) return undefined;
    calls.push(call);
  }
  return calls;
}

function toWords(value: WireValue): readonly string[] | undefined {
  return typeof value === 'string' ? value.split(/\s+/).filter(Boolean) : undefined;
}

/** Returns the target of a request, or `undefined` if it is invalid. */
export function readTarget({ tgt, tgt_type: type }: WireMap): TargetRequest | undefined {
  const isList = Array.isArray(tgt) && tgt.every((id) => typeof id === 'string');
  if (typeof tgt !== 'string' && !isList) return undefined;
  if (type === undefined || type === null) return { tgt };
  if (typeof type !== 'string') return undefined;
  return { tgt, tgtType: type.startsWith('node') ? 'nodegroup' : type.toLowerCase() };
}

async function readCall(
  fun: string,
  inputs: readonly WireValue[],
  noParse: readonly string[],
  by: MinionReader,
): Promise<BoundFunction | undefined> {
  try {
    const given = separateKeywords(inputs);
    const texts = given.arg.filter((input) => typeof input === 'string');
    const typed = await tryToRead(by, texts, noParse);
    if (typed === undefined) return undefined;
    const values = typed.arg.values();
    const arg = given.arg
      .filter((input) => typeof input !== 'string' || !isKeywordText(input))
      .map((input) => (typeof input === 'string' ? (values.next().value ?? null) : input));
    // Minions would interpret these texts as keyword arguments, which no rule has checked.
    if (arg.some((value) => typeof value === 'string' && isKeywordText(value))) return undefined;
    return { fun, ...checkArguments({ arg, kwarg: { ...given.kwarg, ...typed.kwarg } }) };
  } catch (error) {
    if (error instanceof MasterError) return undefined;
    throw error;
  }
}

/** Parses arguments. Returns `undefined` if they are invalid or take too long to parse. */
async function tryToRead(
  { reader, minionId }: MinionReader,
  texts: readonly string[],
  noParse: readonly string[],
): Promise<FunctionArguments | undefined> {
  try {
    return await reader.readWords(minionId, texts, noParse);
  } catch {
    return undefined;
  }
}

function textsOf(value: WireValue | undefined): string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
}
