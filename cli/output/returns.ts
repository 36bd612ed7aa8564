/** Which outputter prints what, as `salt` chooses it [salt output/__init__.py get_printout]. */
import { isWireMap, type WireValue } from '../../minion-protocol/index.ts';
import type { Colors } from './colors.ts';
import { formatHighstate } from './highstate.ts';
import { formatJson } from './json.ts';
import { formatNested } from './nested.ts';
import { formatNoReturn } from './no-return.ts';
import { formatPprint } from './pprint.ts';
import { formatRaw, formatTxt, formatValuesOnly } from './text.ts';
import { formatYaml } from './yaml.ts';

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
}

type Format = (data: WireValue, options: OutputOptions, isFailure: boolean) => string;

const nested: Format = (data, { colors }, isFailure) => formatNested(data, { colors, isFailure });

const formats: ReadonlyMap<string, Format> = new Map<string, Format>([
  ['nested', nested],
  ['highstate', (data, options) => formatHighstate(data, options) ?? nested(data, options, false)],
  ['json', (data, { indent = 4 }) => formatJson(data, indent < 0 ? {} : { indent })],
  ['newline_values_only', formatValuesOnly],
  ['no_return', formatSilence],
  ['pprint', (data, { indent = 1 }) => formatPprint(data, indent < 0 ? 1 : indent)],
  ['quiet', () => ''],
  ['raw', formatRaw],
  ['text', formatTxt],
  ['txt', formatTxt],
  ['yaml', (data, { indent }) => formatYaml(data, { indent })],
]);

/** Whether there is an outputter of this name; Salt's nested takes the place of others. */
export function isOutputter(name: string): boolean {
  return formats.has(name);
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
  const format = formats.get(chosen || 'nested') ?? nested;
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

function formatSilence(data: WireValue, { colors }: OutputOptions): string {
  const entries = data instanceof Map ? [...data] : Object.entries(isWireMap(data) ? data : {});
  return entries
    .map(([minion, reason]) => formatNoReturn(String(minion), String(reason), colors))
    .join('\n');
}
