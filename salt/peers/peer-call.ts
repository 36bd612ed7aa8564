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

/** Maximum number of words in all arguments of a job with several functions. */
const maxWords = 20_000;

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
  if (funs.length > 1 && arg.length !== funs.length) return undefined;
  const ofEach = funs.length === 1 ? [arg] : wordsOfEach(arg);
  if (ofEach === undefined) return undefined;
  const calls: BoundFunction[] = [];
  for (const [index, inputs] of ofEach.entries()) {
    const call = await readCall(funs[index] ?? first, inputs, noParse, by);
    if (call === undefined) return undefined;
    calls.push(call);
  }
  return calls;
}

/** Splits texts into words. Returns `undefined` if there are too many words. */
function wordsOfEach(texts: readonly WireValue[]): readonly (readonly string[])[] | undefined {
  const ofEach: string[][] = [];
  let left = maxWords;
  for (const text of texts) {
    if (typeof text !== 'string') return undefined;
    // Empty words before the first and after the last word do not count. The limit of `split` keeps
    // it from creating all words of a long text.
    const words = text.split(/\s+/, left + 3).filter(Boolean);
    left -= words.length;
    if (left < 0) return undefined;
    ofEach.push(words);
  }
  return ofEach;
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
