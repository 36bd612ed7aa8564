/** Reads the commands in a request body, which is a list of maps or a single map. */

import {
  type FunctionArguments,
  requireFewArguments,
  requireFewKeywords,
  separateKeywords,
} from '#master';
import { isKeywordText, isWireMap, numberOf, type WireMap, type WireValue } from '#minion-protocol';
import { SaltApiError } from './errors.ts';

/** A command as received, not yet validated. */
export type Lowstate = Readonly<WireMap>;

/** Arguments for one call of a function. */
export interface LowstateArguments {
  readonly arg: readonly WireValue[];
  readonly kwarg: Readonly<WireMap>;
}

/** Maximum number of commands in one request [THREATS A-17]. */
const maxCommands = 64;

/** Names of fields that contain credentials. They are never passed to functions, events or jobs. */
export const credentialFields: readonly string[] = ['token', 'username', 'password', 'eauth'];

/**
 * Returns the commands of a body.
 * @throws SaltApiError ERR_HTTP_BODY; MasterError ERR_ARGS
 */
export function lowstatesOf(value: WireValue | undefined): Lowstate[] {
  if (isWireMap(value) && Object.keys(value).length > 0) {
    requireFewKeywords(value);
    return [value];
  }
  if (!Array.isArray(value) || !value.every(isWireMap)) {
    throw new SaltApiError(
      'ERR_HTTP_BODY',
      'the body must be a map that describes one command, or a list of such maps',
    );
  }
  if (value.length > maxCommands) {
    throw new SaltApiError(
      'ERR_HTTP_BODY',
      `the request has too many commands; the maximum is ${maxCommands}`,
    );
  }
  for (const command of value) requireFewKeywords(command);
  return value;
}

/** Parses arguments as typed on a command line: see `BodyReader.readWords`. */
export type WordReader = (words: readonly string[]) => Promise<FunctionArguments>;

/**
 * Returns the positional and keyword arguments of a command. A positional text such as `name=value`
 * is a keyword argument, as for minions and runners. It is converted here, because rights can refer
 * to keyword arguments by name.
 * @param more - keyword arguments from other fields
 * @throws SaltApiError ERR_HTTP_FIELDS, ERR_HTTP_BODY, ERR_HTTP_BUSY; MasterError ERR_ARGS
 */
export async function argumentsOf(
  { arg, kwarg }: Lowstate,
  readWords: WordReader,
  more: WireMap = {},
): Promise<LowstateArguments> {
  if (kwarg !== undefined && kwarg !== null && !isWireMap(kwarg)) {
    throw new SaltApiError('ERR_HTTP_FIELDS', 'kwarg: must be a map');
  }
  if (isWireMap(kwarg)) requireFewKeywords(kwarg);
  const values = asList(arg);
  requireFewArguments(values.length);
  const positional: WireValue[] = [];
  const words: string[] = [];
  for (const value of values) {
    if (typeof value === 'string' && isKeywordText(value)) words.push(value);
    else positional.push(value);
  }
  const keywords: WireMap = Object.create(null);
  const read = words.length === 0 ? {} : (await readWords(words)).kwarg;
  return separateKeywords(positional, Object.assign(keywords, read, kwarg, more));
}

/** Returns a copy of a command without the named fields. */
export function omitFields(low: Lowstate, names: readonly string[]): WireMap {
  const rest: WireMap = Object.create(null);
  for (const [name, value] of Object.entries(low)) if (!names.includes(name)) rest[name] = value;
  return rest;
}

/**
 * Returns a field as a number of seconds. The field may be a number or a text.
 * @throws SaltApiError ERR_HTTP_FIELDS
 */
export function secondsOf(low: Lowstate, name: string): number | undefined {
  const value = low[name];
  if (value === undefined || value === null || value === '') return undefined;
  const seconds = numberOf(value);
  if (seconds !== undefined && seconds >= 0 && seconds <= 86_400) return seconds;
  throw new SaltApiError('ERR_HTTP_FIELDS', `${name}: must be a number of seconds, at most 86400`);
}

function asList(value: WireValue | undefined): readonly WireValue[] {
  if (value === undefined || value === null) return [];
  return Array.isArray(value) ? value : [value];
}
