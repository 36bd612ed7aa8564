/**
 * Selects the outputter for a result in the same way as `salt` [salt output/__init__.py
 * get_printout].
 */

import { formatYaml, isWireMap, type WireValue } from '#minion-protocol';
import { splitLines } from '#template/python/text.ts';
import { type Colors, escapeLine, escapeLines, escapeName, noColors } from '../terminal.ts';
import { formatHighstate } from './highstate.ts';
import { formatNested } from './nested.ts';
import { formatJson, formatPprint, mapEntries, pythonRepr, pythonStr } from './value-text.ts';

/** Returns the id of a minion, and below it the reason why the minion did not return. */
export function formatNoReturn(minion: string, reason: string, colors: Colors = noColors): string {
  const lines = reason
    .split('\n')
    .map((line) => `${colors.red}    ${escapeLine(line)}${colors.end}`);
  return [`${colors.cyan}${escapeName(minion)}${colors.end}:`, ...lines].join('\n');
}

/**
 * Formats a value as `txt`: each line of each value, after the value's key [salt output/txt.py].
 */
export function formatTxt(value: WireValue): string {
  const entries = mapEntries(value);
  if (entries === undefined) return escapeLines(pythonStr(value));
  return entries
    .flatMap(([key, item]) => {
      const lines = typeof item === 'string' ? splitLines(item) : [pythonRepr(item)];
      return lines.map((line) => `${escapeName(pythonStr(key))}: ${escapeLine(line)}`);
    })
    .join('\n');
}

/** Formats a value as `raw`, which is Python's representation [salt output/raw.py]. */
export function formatRaw(value: WireValue): string {
  return escapeLines(pythonStr(value));
}

/**
 * Formats a value as `newline_values_only`: without ids, and each list item on its own line [salt
 * output/newline_values_only.py].
 */
export function formatValuesOnly(value: WireValue): string {
  const values = (mapEntries(value) ?? []).flatMap(([, item]) => item);
  return escapeLines(values.map(pythonStr).join('\n'));
}

/** Return of one minion, or the information that the minion did not return. */
export interface MinionReturn {
  readonly minion: string;
  readonly value: WireValue;
  readonly isFailure: boolean;
  /** Outputter that the executed function selects. */
  readonly out?: string;
}

/** Options for printing returns. */
export interface OutputOptions {
  /**
   * Outputter that the user selects. As in Salt, it takes precedence over the outputter that the
   * function selects, unless the user selects `highstate`.
   */
  readonly outputter?: string | undefined;
  /**
   * Number of spaces per level. If it is negative, the output has no indentation and as few lines
   * as possible.
   */
  readonly indent?: number | undefined;
  readonly colors: Colors;
  /**
   * `state_output`: format of each state: `full`, `terse`, `mixed` or `changes`, each also with the
   * suffix `_id`. Default: `full`.
   */
  readonly stateOutput?: string | undefined;
  /** `state_verbose`: whether unchanged states are printed too. Default: true. */
  readonly stateVerbose?: boolean | undefined;
  /** `state_output_profile`: whether start and duration of a state are printed. Default: true. */
  readonly stateProfile?: boolean | undefined;
}

type Outputter = (data: WireValue, options: OutputOptions, isFailure: boolean) => string;

const formatNestedReturn: Outputter = (data, { colors }, isFailure) =>
  formatNested(data, { colors, isFailure });

/** Outputters by name. For unknown names, Salt uses its nested outputter. */
export const outputters: ReadonlyMap<string, Outputter> = new Map<string, Outputter>([
  ['nested', formatNestedReturn],
  [
    'highstate',
    (data, options) => formatHighstate(data, options) ?? formatNestedReturn(data, options, false),
  ],
  ['json', (data, { indent = 4 }) => formatJson(data, indent < 0 ? {} : { indent })],
  ['newline_values_only', formatValuesOnly],
  ['no_return', formatNoReturns],
  ['pprint', (data, { indent = 1 }) => formatPprint(data, indent < 0 ? 1 : indent)],
  ['quiet', () => ''],
  ['raw', formatRaw],
  ['text', formatTxt],
  ['txt', formatTxt],
  ['yaml', (data, { indent }) => formatYaml(data, { indent })],
]);

/**
 * Formats data with the selected outputter, without spaces and newlines at the end. The result may
 * be empty.
 * @param out - outputter that the called Salt function chose for its result
 */
export function formatData(
  data: WireValue,
  out: string | undefined,
  options: OutputOptions,
  isFailure = false,
): string {
  const { outputter } = options;
  const chosen = outputter === undefined || outputter === 'highstate' ? out : outputter;
  const format = outputters.get(chosen || 'nested') ?? formatNestedReturn;
  return format(data, options, isFailure).trimEnd();
}

/** Formats the return of one minion, for printing it as soon as it arrives. */
export function formatReturn(result: MinionReturn, options: OutputOptions): string {
  const { minion, value, isFailure, out } = result;
  return formatData(new Map([[minion, value]]), out, options, isFailure);
}

/**
 * Formats all returns together, for `--static`. Results of states always use their own outputter.
 * @param fun - function that was executed
 */
export function formatReturns(
  results: readonly MinionReturn[],
  fun: string | readonly string[],
  options: OutputOptions,
): string {
  const data = new Map(results.map(({ minion, value }): [string, WireValue] => [minion, value]));
  const isState = typeof fun === 'string' && fun.startsWith('state.');
  const out = options.outputter ?? (isState ? 'highstate' : undefined);
  return formatData(data, out, options);
}

function formatNoReturns(data: WireValue, { colors }: OutputOptions): string {
  const entries = data instanceof Map ? [...data] : Object.entries(isWireMap(data) ? data : {});
  return entries
    .map(([minion, reason]) => formatNoReturn(String(minion), String(reason), colors))
    .join('\n');
}
