/** Which outputter prints what, as `salt` chooses it [salt output/__init__.py get_printout]. */

import { isWireMap, type WireValue } from '#minion-protocol';
import { splitLines } from '#template/python/text.ts';
import { type Colors, escapeLine, escapeLines, escapeName, noColors } from '../terminal.ts';
import { formatHighstate } from './highstate.ts';
import { formatNested } from './nested.ts';
import {
  formatJson,
  formatPprint,
  formatYaml,
  mapEntries,
  pythonRepr,
  pythonStr,
} from './value-text.ts';

/** The minion's id and, below it, why there is no return. */
export function formatNoReturn(minion: string, reason: string, colors: Colors = noColors): string {
  const lines = reason
    .split('\n')
    .map((line) => `${colors.red}    ${escapeLine(line)}${colors.end}`);
  return [`${colors.cyan}${escapeName(minion)}${colors.end}:`, ...lines].join('\n');
}

/** `txt`: each line of each value behind its key [salt output/txt.py]. */
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

/** `raw`: what Python shows of it [salt output/raw.py]. */
export function formatRaw(value: WireValue): string {
  return escapeLines(pythonStr(value));
}

/** `newline_values_only`: no ids, a list's items each on a line [salt output/newline_values_only.py]. */
export function formatValuesOnly(value: WireValue): string {
  const values = (mapEntries(value) ?? []).flatMap(([, item]) => item);
  return escapeLines(values.map(pythonStr).join('\n'));
}

/** What one minion said, or that it said nothing. */
export interface MinionReturn {
  readonly minion: string;
  readonly value: WireValue;
  readonly isFailure: boolean;
  /** The outputter that the function asks for. */
  readonly out?: string;
}

/** How returns are shown. */
export interface OutputOptions {
  /** What the person asked for; it wins over what a function asks for. */
  readonly outputter?: string | undefined;
  /** Spaces for each level; negative: none, on as few lines as possible. */
  readonly indent?: number | undefined;
  readonly colors: Colors;
  /** `state_output`. Default `full`. */
  readonly stateOutput?: string | undefined;
  /** `state_verbose`. Default true. */
  readonly stateVerbose?: boolean | undefined;
  /** `state_output_profile`. Default true. */
  readonly stateProfile?: boolean | undefined;
}

type Outputter = (data: WireValue, options: OutputOptions, isFailure: boolean) => string;

const formatNestedReturn: Outputter = (data, { colors }, isFailure) =>
  formatNested(data, { colors, isFailure });

const outputters: ReadonlyMap<string, Outputter> = new Map<string, Outputter>([
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

/** Whether there is an outputter of this name; Salt's nested takes the place of others. */
export function isOutputter(name: string): boolean {
  return outputters.has(name);
}

/**
 * Data as it is printed, without blanks and newlines at its end. May be empty.
 * @param out the outputter that the function asks for
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

/** One minion's return, as it is printed when it comes. */
export function formatReturn(result: MinionReturn, options: OutputOptions): string {
  const { minion, value, isFailure, out } = result;
  return formatData(new Map([[minion, value]]), out, options, isFailure);
}

/**
 * All returns at once, as `--static` prints them: states need no asking for their outputter.
 * @param fun what was run
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
