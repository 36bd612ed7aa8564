/** Converts options to a request [salt utils/parsers.py SaltCMDOptionParser]. */

import { joinKeywords, parseArgument, parseArguments, type RunRequest } from '#master';
import { isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import { CommandError } from '../errors.ts';
import { type TargetOptions, toTarget } from './salt-target.ts';

/** Options that determine the request. */
export interface SaltRequestOptions extends TargetOptions {
  readonly timeout?: number;
  readonly gatherJobTimeout?: number;
  readonly subset?: number;
  readonly metadata?: string;
  readonly startEvent?: boolean;
  readonly return?: string;
  readonly jid?: string;
  readonly argsSeparator: string;
  /**
   * Names of keyword arguments, separated by commas. Their values are not parsed. Commander stores
   * `--no-parse` under this name.
   */
  readonly parse: string;
}

/**
 * Converts a command line to a request.
 * @throws CommandError ERR_ARGS, ERR_COMPOUND
 */
export function toRunRequest(
  tgt: string,
  fun: string,
  args: readonly string[],
  options: SaltRequestOptions,
): RunRequest {
  const { timeout, gatherJobTimeout, subset, metadata, jid } = options;
  return {
    ...toTarget(tgt, options),
    ...parseCall(fun, args, options),
    ...(timeout === undefined ? {} : { timeoutSeconds: timeout }),
    ...(gatherJobTimeout === undefined ? {} : { gatherJobTimeoutSeconds: gatherJobTimeout }),
    ...(subset === undefined ? {} : { subset }),
    ...(options.startEvent === true ? { startEvent: true } : {}),
    ...(metadata === undefined ? {} : { metadata: parseMetadata(metadata) }),
    ...(options.return === undefined ? {} : { ret: options.return }),
    ...(jid === undefined ? {} : { jid }),
  };
}

function parseCall(
  fun: string,
  args: readonly string[],
  { argsSeparator, parse }: SaltRequestOptions,
): Pick<RunRequest, 'fun' | 'arg' | 'kwarg'> {
  const noParse = parse.split(',');
  if (!fun.includes(',')) return { fun, ...parseArguments(args, noParse) };
  const funs = fun.split(',');
  const lists = splitArguments(args, funs.length, argsSeparator);
  return { fun: funs, arg: lists.map((list) => parseArgumentList(list, noParse)) };
}

/**
 * Splits the arguments of several functions into one list for each function. If enough arguments
 * equal the separator, splits only there. Otherwise, also splits the text of each argument at the
 * separator.
 * @throws CommandError ERR_COMPOUND if the number of lists differs from the number of functions
 */
function splitArguments(args: readonly string[], functions: number, separator: string): string[][] {
  const isAlone = args.filter((arg) => arg === separator).length === functions - 1;
  const lists: string[][] = [[]];
  for (const arg of args) {
    const parts = isAlone && arg !== separator ? [arg] : arg.split(separator);
    for (const [index, part] of parts.entries()) {
      if (index > 0) lists.push([]);
      if (part !== '' || (isAlone && arg === '')) lists.at(-1)?.push(part);
    }
  }
  if (lists.length === functions) return lists;
  const problem =
    lists.length < functions
      ? 'without defining all arguments.'
      : 'with more arguments than commands.';
  throw new CommandError('ERR_COMPOUND', `Cannot execute compound command ${problem}`);
}

function parseArgumentList(args: readonly string[], noParse: readonly string[]): WireValue[] {
  return joinKeywords(parseArguments(args, noParse));
}

function parseMetadata(text: string): WireMap {
  const value = parseArgument(text);
  if (isWireMap(value)) return value;
  throw new CommandError(
    'ERR_ARGS',
    '--metadata: the value must be a map in YAML, for example {key: value}',
  );
}
