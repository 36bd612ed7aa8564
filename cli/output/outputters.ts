/** Which outputter prints what, as `salt` chooses it [salt output/__init__.py get_printout]. */

import { appendFile, open } from 'node:fs/promises';
import { type Command, InvalidArgumentError, Option } from 'commander';
import {
  isWireMap,
  type PythonForms,
  toPythonValue,
  unboundedStr,
  WireDateTime,
  WireExtension,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import { dumpJson } from '#template/python/json.ts';
import { RecursionGuard, UsageMeter } from '#template/python/limits.ts';
import { textOrder } from '#template/python/comparison.ts';
import { pformat } from '#template/python/pprint.ts';
import { splitLines } from '#template/python/text.ts';
import { wrapLine } from '#template/python/text-wrap.ts';
import { Bytes, Tuple, type Value } from '#template/python/values.ts';
import { bytesRepr, repr, str } from '#template/python/repr.ts';
import { dumpYaml } from '#template/python/yaml.ts';
import type { CommandDefaults } from '../command-defaults.ts';
import type { CommandContext, OutputStream } from '../context.ts';
import {
  type Colors,
  escapeJson,
  escapeLine,
  escapeLines,
  escapeName,
  noColors,
  printLine,
  terminalColors,
} from '../terminal.ts';

// Values as text: as Python, JSON and YAML write them, and by Salt's default outputter.

// Values of the wire as Python prints them, which is how Salt's outputters do.

/** Salt's client gets dates as text, and extensions as a pair. */
const printed: PythonForms = {
  dateTime: ({ text }) => text,
  extension: ({ code, data }) => [code, new Bytes(data)],
};

/** JSON has neither bytes nor keys that are tuples: Python's literals stand for both. */
const jsonForms: PythonForms = {
  bytes: bytesRepr,
  dateTime: ({ text }) => text,
  extension: ({ code, data }) => [code, bytesRepr(data)],
  key: (key) => (key instanceof Tuple ? str(key) : key),
};

/** YAML has dates, written without quotes. */
const yamlForms: PythonForms = {
  ...printed,
  dateTime: ({ text }) => ({ typeName: 'datetime', repr: () => text }),
};

/** `repr()`. */
export function pythonRepr(value: WireValue): string {
  return repr(toPythonValue(value, printed), new RecursionGuard(Number.POSITIVE_INFINITY));
}

/** `str()`: text as it is, everything else as `repr()` has it. */
export function pythonStr(value: WireValue): string {
  return typeof value === 'string' ? value : unboundedStr(toPythonValue(value, printed));
}

/** A map's entries in its own order, or `undefined` when the value is no map. */
export function mapEntries(value: WireValue): [WireValue, WireValue][] | undefined {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return undefined;
  if (value instanceof Uint8Array || value instanceof WireDateTime) return undefined;
  if (value instanceof WireExtension) return undefined;
  return value instanceof Map ? [...value] : Object.entries(value);
}

/** `sorted()` of a map's entries; keys that cannot be compared are sorted as text. */
function sortMapEntries(entries: readonly [WireValue, WireValue][]): [string, WireValue][] {
  const named = entries.map(([key, item]) => ({ key, name: pythonStr(key), item }));
  const areNumbers = named.every(({ key }) => isNumeric(key));
  named.sort((left, right) => {
    if (areNumbers) return Number(left.key) - Number(right.key);
    return textOrder(left.name, right.name);
  });
  return named.map(({ name, item }) => [name, item]);
}

function isNumeric(key: WireValue): boolean {
  return typeof key === 'number' || typeof key === 'bigint' || typeof key === 'boolean';
}

/** How JSON is laid out. */
export interface JsonOptions {
  /** Spaces for each level; without it, everything is on one line. */
  readonly indent?: number;
}

/**
 * The value as JSON, keys in their own order [salt output/json_out.py]. Bytes are written as Python's
 * literal, and numbers that JSON has no form for as `NaN` and `Infinity`, both as Salt does.
 */
export function formatJson(value: WireValue, { indent }: JsonOptions = {}): string {
  const meter = UsageMeter.unlimited();
  const converted = toPythonValue(value, jsonForms);
  return escapeJson(dumpJson(converted, { sortKeys: false, indent, ensureAscii: false, meter }));
}

/** How YAML is laid out. */
export interface YamlOptions {
  /** Spaces for each level, 2 to 9; negative: everything in flow style. Default 2. */
  readonly indent?: number | undefined;
}

/** The value as YAML, keys sorted, without a newline at its end [salt output/yaml_out.py]. */
export function formatYaml(value: WireValue, { indent = 2 }: YamlOptions = {}): string {
  return dumpYaml(toPythonValue(value, yamlForms), {
    flowStyle: indent < 0,
    indent: indent >= 2 && indent <= 9 ? indent : 2,
    isLibyaml: true,
    meter: UsageMeter.unlimited(),
  });
}

/** The value in lines of at most 80 columns where it can be broken [salt output/pprint_out.py]. */
export function formatPprint(value: WireValue, indentPerLevel = 1): string {
  const converted: Value = toPythonValue(value, printed);
  return pformat(converted, UsageMeter.unlimited(), indentPerLevel);
}

/**
 * Python's `textwrap.fill`: lines are broken at blanks and behind hyphens; what is longer than a
 * line is cut.
 * @param indent blanks before each line, counted in its width
 */
export function wrapText(text: string, width: number, indent: number): string {
  const line = text.replace(/[\t\n\v\f\r]/g, ' ');
  const options = { width: width - indent, breakLongWords: true, breakOnHyphens: true };
  return wrapLine(line, options)
    .map((part) => ' '.repeat(indent) + part)
    .join('\n');
}

// Salt's default outputter: YAML-like, keys sorted, coloured [salt output/nested.py].

/** How a value is shown. */
export interface NestedOptions {
  /** Default: none. */
  readonly colors?: Colors;
  /** Whether the minion said that it failed: structure is then red. */
  readonly isFailure?: boolean;
  /** Spaces before everything. Default 0. */
  readonly indent?: number;
}

/** The value as Salt prints it, without a newline at its end. Empty text shows as nothing. */
export function formatNested(value: WireValue, options: NestedOptions = {}): string {
  const lines: string[] = [];
  const { colors = noColors, isFailure = false, indent = 0 } = options;
  new NestedWriter(lines, colors, isFailure).write(value, indent, '');
  return lines.join('\n');
}

class NestedWriter {
  readonly #lines: string[];
  readonly #colors: Colors;
  readonly #listColor: string;
  readonly #mapColor: string;

  constructor(lines: string[], colors: Colors, isFailure: boolean) {
    this.#lines = lines;
    this.#colors = colors;
    this.#listColor = isFailure ? colors.red : colors.green;
    this.#mapColor = isFailure ? colors.red : colors.cyan;
  }

  write(value: WireValue, indent: number, prefix: string): void {
    const { lightYellow } = this.#colors;
    if (value === null) this.#line(indent, lightYellow, `${prefix}None`);
    else if (value === true) this.#line(indent, lightYellow, `${prefix}True`);
    else if (value === false) this.#line(indent, lightYellow, `${prefix}False`);
    else if (typeof value === 'number' || typeof value === 'bigint') {
      this.#line(indent, lightYellow, `${prefix}${pythonRepr(value)}`);
    } else if (typeof value === 'string') this.#writeText(value, indent, prefix);
    else if (value instanceof Uint8Array) this.#writeBytes(value, indent, prefix);
    else if (value instanceof WireDateTime) this.#writeText(value.text, indent, prefix);
    else if (value instanceof WireExtension) this.#writeList([value.code, value.data], indent);
    else if (Array.isArray(value)) this.#writeList(value, indent);
    else this.#writeMap(value, indent);
  }

  #line(indent: number, color: string, text: string, suffix = ''): void {
    this.#lines.push(`${' '.repeat(indent)}${color}${text}${this.#colors.end}${suffix}`);
  }

  #writeText(text: string, indent: number, prefix: string): void {
    for (const [index, line] of splitLines(text).entries()) {
      const start = index === 0 ? prefix : ' '.repeat(prefix.length);
      this.#line(indent, this.#colors.green, start + escapeLine(line));
    }
  }

  /** Bytes that are text are shown as such, others not at all. */
  #writeBytes(bytes: Uint8Array, indent: number, prefix: string): void {
    let text: string;
    try {
      text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      return;
    }
    this.#writeText(text, indent, prefix);
  }

  #writeList(items: readonly WireValue[], indent: number): void {
    for (const item of items) {
      if (isContainer(item)) {
        this.#line(indent, this.#listColor, '|_');
        this.write(item, indent + 2, '');
      } else {
        this.write(item, indent, '- ');
      }
    }
  }

  #writeMap(map: WireValue, indent: number): void {
    if (indent > 0) this.#line(indent, this.#mapColor, '----------');
    for (const [name, item] of sortMapEntries(mapEntries(map) ?? [])) {
      this.#line(indent, this.#mapColor, escapeName(name), ':');
      this.write(item, indent + 4, '');
    }
  }
}

function isContainer(value: WireValue): boolean {
  return Array.isArray(value) || value instanceof WireExtension || mapEntries(value) !== undefined;
}

// Salt's outputter for what states return [salt output/highstate.py].

// One state.

/** What a minion says of one state. */
interface StateResult {
  /** The state's module. */
  readonly module: string;
  readonly id: string;
  readonly name: string;
  readonly fun: string;
  readonly runNumber: number;
  /** `null`: it would have been changed (`test=True`). */
  readonly result: WireValue;
  readonly changes: WireValue;
  readonly comment: WireValue;
  /** Text that belongs to the comment. */
  readonly data: WireValue | undefined;
  readonly startTime: WireValue | undefined;
  /** Milliseconds. */
  readonly duration: WireValue | undefined;
  readonly warnings: readonly WireValue[];
  readonly isParallel: boolean;
}

/** Column of what stands behind `Comment:` and `Changes:`. */
const changesIndent = 14;

/** Reads `module_|-id_|-name_|-fun` and its value; `undefined`: it is no state. */
function toStateResult(key: string, info: WireValue): StateResult | undefined {
  if (!isWireMap(info) || info.result === undefined) return undefined;
  const [module = '', id = '', name = id, ...rest] = key.split('_|-');
  return {
    module,
    id,
    name,
    fun: rest.at(-1) ?? '',
    runNumber: Number(info.__run_num__ ?? 0),
    result: info.result,
    changes: info.changes ?? null,
    comment: info.comment ?? '',
    data: info.data,
    startTime: info.start_time,
    duration: info.duration,
    warnings: Array.isArray(info.warnings) ? info.warnings : [],
    isParallel: info.__parallel__ !== undefined,
  };
}

/** A state in full. */
function formatState(
  state: StateResult,
  changes: string,
  color: string,
  { colors, stateProfile = true }: HighstateOptions,
): string {
  const { module, id, name, fun, result, startTime, duration, warnings } = state;
  const field = (text: string): string => `    ${color}${text}${colors.end}`;
  const lines = [`${color}----------${colors.end}`, field(`      ID: ${escapeName(id)}`)];
  lines.push(field(`Function: ${escapeName(module)}.${escapeName(fun)}`));
  if (name !== id) lines.push(field(`    Name: ${escapeName(name)}`));
  lines.push(field(`  Result: ${escapeName(pythonStr(result))}`));
  lines.push(field(` Comment: ${formatComment(state)}`));
  if (stateProfile && startTime !== undefined) {
    const time = duration === undefined || duration === '' ? '' : `${pythonStr(duration)} ms`;
    lines.push(field(` Started: ${escapeName(pythonStr(startTime))}`));
    lines.push(field(`Duration: ${escapeName(time)}`));
  }
  lines.push(`${color}     Changes:   ${changes}${colors.end}`);
  if (warnings.length > 0) lines.push(formatWarnings(warnings, colors));
  return lines.join('\n');
}

/** A state on one line. */
function formatTerse(
  state: StateResult,
  color: string,
  { colors, stateProfile = true }: HighstateOptions,
): string {
  const { module, name, fun, startTime, duration = '', warnings } = state;
  const warning =
    warnings.length === 0
      ? ''
      : `${colors.lightRed}Warnings:\n${escapeLines(warnings.map(pythonStr).join('\n'))}${colors.end}`;
  const parts = [
    `Name: ${escapeName(name)}`,
    `Function: ${escapeName(module)}.${escapeName(fun)}`,
    `Result: ${terseResult(state)}`,
  ];
  if (stateProfile && startTime !== undefined) {
    parts.push(`Started: ${escapeName(pythonStr(startTime))}`);
    parts.push(`Duration: ${escapeName(pythonStr(duration))} ms`);
  }
  return `${warning} ${color} ${parts.join(' - ')}${colors.end}`;
}

function terseResult({ result, changes }: StateResult): string {
  if (result === false) return 'Failed';
  if (result === null) return 'Differs';
  return (mapEntries(changes)?.length ?? 0) > 0 ? 'Changed' : 'Clean';
}

function formatComment({ comment, data }: StateResult): string {
  const text = pythonStr(comment)
    .trim()
    .replaceAll('\n', `\n${' '.repeat(changesIndent)}`);
  if (data === undefined) return escapeLines(text);
  const entries = mapEntries(data);
  if (entries !== undefined) {
    const lines = entries.map(([key, item]) => `\n\n\t\t${pythonStr(key)}: ${pythonStr(item)}`);
    return escapeLines(text + lines.join(''));
  }
  const items = Array.isArray(data) ? data : [data];
  return escapeLines([text, ...items.map(pythonStr)].join(' '));
}

function formatWarnings(warnings: readonly WireValue[], colors: Colors): string {
  const text = wrapText(warnings.map(pythonStr).join('\n'), 80, changesIndent).trimStart();
  return `   ${colors.lightRed} Warnings: ${escapeLines(text)}${colors.end}`;
}

// Counts.

/** Room for the longest label, `Succeeded`. */
const labelWidth = 9;

/** Counts states as they are shown. */
class HighstateSummary {
  readonly #host: string;
  readonly #colors: Colors;
  readonly #counts = { succeeded: 0, failed: 0, notRun: 0, warnings: 0 };
  #changed = 0;
  #duration = 0;
  #longestParallel = 0;

  constructor(host: string, colors: Colors) {
    this.#host = host;
    this.#colors = colors;
  }

  get hasChanges(): boolean {
    return this.#changed > 0;
  }

  add(state: StateResult, hasChanges: boolean): void {
    if (state.result === false) this.#counts.failed += 1;
    else if (state.result === null) this.#counts.notRun += 1;
    else this.#counts.succeeded += 1;
    if (state.warnings.length > 0) this.#counts.warnings += 1;
    if (hasChanges) this.#changed += 1;
    const duration = Number.parseFloat(String(state.duration ?? 0)) || 0;
    if (state.isParallel) this.#longestParallel = Math.max(this.#longestParallel, duration);
    else this.#duration += duration;
  }

  /** Begins with an empty line. */
  format(hasProfile: boolean): string {
    const { cyan, green, red, lightRed, end } = this.#colors;
    const { succeeded, failed, notRun, warnings } = this.#counts;
    const rule = '-'.repeat(this.#width);
    const total = succeeded + failed + notRun;
    const lines = [
      `${cyan}\nSummary for ${escapeName(this.#host)}\n${rule}${end}`,
      `${green}${this.#line('Succeeded', succeeded + notRun)}${end}${this.#changes()}`,
      `${failed > 0 ? red : cyan}${this.#line('Failed', failed)}${end}`,
    ];
    if (warnings > 0) lines.push(`${lightRed}${this.#line('Warnings', warnings)}${end}`);
    lines.push(`${cyan}${rule}\nTotal states run: ${this.#right(total, this.#width - 7)}${end}`);
    if (hasProfile) lines.push(`${cyan}Total run time: ${this.#time()}${end}`);
    return lines.join('\n');
  }

  get #width(): number {
    const { succeeded, failed, notRun, warnings } = this.#counts;
    const digits = [succeeded, failed, notRun, warnings].map((count) => String(count).length);
    const isEmpty = succeeded + failed + notRun + warnings === 0;
    return labelWidth + (isEmpty ? 1 : Math.max(...digits)) + 2;
  }

  #line(label: string, count: number): string {
    return `${label}: ${this.#right(count, this.#width - label.length - 2)}`;
  }

  #right(count: number | string, width: number): string {
    return String(count).padStart(width);
  }

  #changes(): string {
    const { lightYellow, green, end } = this.#colors;
    const parts: string[] = [];
    if (this.#counts.notRun > 0) parts.push(`${lightYellow}unchanged=${this.#counts.notRun}${end}`);
    if (this.#changed > 0) parts.push(`${green}changed=${this.#changed}${end}`);
    return parts.length === 0 ? '' : ` (${parts.join(', ')})`;
  }

  #time(): string {
    const milliseconds = this.#duration + this.#longestParallel;
    const isLong = milliseconds > 999;
    const value = (isLong ? milliseconds / 1000 : milliseconds).toFixed(3);
    return `${this.#right(value, this.#width - 5)} ${isLong ? 's' : 'ms'}`;
  }
}

/** How states are shown; Salt's options of these names. */
interface HighstateOptions {
  readonly colors: Colors;
  /** `state_output`: full, terse, mixed or changes, each also with `_id`. Default `full`. */
  readonly stateOutput?: string | undefined;
  /** `state_verbose`: also states that are as they should be. Default true. */
  readonly stateVerbose?: boolean | undefined;
  /** `state_output_profile`: when each began, and its duration. Default true. */
  readonly stateProfile?: boolean | undefined;
}

/** A minion's states one below the other, with a summary; `undefined`: no map of minions. */
function formatHighstate(data: WireValue, options: HighstateOptions): string | undefined {
  const unwrapped = unwrap(data);
  const hosts = mapEntries(unwrapped);
  if (hosts === undefined) return undefined;
  return hosts.map(([host, value]) => formatHost(pythonStr(host), value, options).text).join('\n');
}

/** Runners and `jobs.lookup_jid` wrap what states return. */
function unwrap(data: WireValue): WireValue {
  if (!isWireMap(data)) return data;
  if (data.return !== undefined) return unwrap(data.return);
  return data.data === undefined ? data : data.data;
}

interface HostText {
  readonly text: string;
  readonly hasChanges: boolean;
}

function formatHost(host: string, data: WireValue, options: HighstateOptions): HostText {
  const { colors } = options;
  const title = (color: string): string => `${color}${escapeName(host)}:${colors.end}`;
  if (Array.isArray(data)) {
    const failure = `    ${colors.lightRed}Data failed to compile:${colors.end}`;
    const lines = data.map(
      (item) => `${colors.lightRed}----------\n    ${escapeLines(pythonStr(item))}${colors.end}`,
    );
    return { text: [title(colors.lightRed), failure, ...lines].join('\n'), hasChanges: false };
  }
  if (isWireMap(data)) return formatStates(host, data, options);
  const lines = typeof data === 'string' ? splitLines(data) : [pythonStr(data)];
  const shown = lines.map((line) => `${colors.green}    ${escapeLine(line)}${colors.end}`);
  return { text: [title(colors.cyan), ...shown].join('\n'), hasChanges: true };
}

function formatStates(host: string, data: WireMap, options: HighstateOptions): HostText {
  const { colors } = options;
  const states = Object.entries(data)
    .flatMap(([name, info]) => toStateResult(name, info) ?? [])
    .sort((left, right) => left.runNumber - right.runNumber);
  const summary = new HighstateSummary(host, colors);
  const lines: string[] = formatUnordered(data);
  let color = colors.green;
  for (const state of states) {
    const changes = formatChanges(state.changes, options);
    summary.add(state, changes !== undefined);
    const isAsItShouldBe = hasSucceeded(state) && changes === undefined;
    if (options.stateVerbose === false && isAsItShouldBe) continue;
    const stateColor = colorOf(state, changes !== undefined, colors);
    if (state.result === false || state.result === null) color = stateColor;
    const shown = withId(state, options);
    lines.push(
      isTerse(state, isAsItShouldBe, options)
        ? formatTerse(shown, stateColor, options)
        : formatState(shown, changes ?? '', stateColor, options),
    );
  }
  const text = [
    `${color}${escapeName(host)}:${colors.end}`,
    ...lines,
    summary.format(options.stateProfile ?? true),
  ].join('\n');
  return { text, hasChanges: summary.hasChanges };
}

/** States without their number cannot be put in order; they are shown first, as they are. */
function formatUnordered(data: WireMap): string[] {
  return Object.entries(data).flatMap(([name, info]) => {
    const isLost =
      isWireMap(info) &&
      name !== 'changes' &&
      Object.keys(info).length > 0 &&
      info.__run_num__ === undefined;
    if (!isLost) return [];
    const problem =
      'The State execution failed to record the order in which all states were executed. ' +
      'The state return missing data is:';
    return [problem, escapeLines(formatPprint(info))];
  });
}

function hasSucceeded({ result }: StateResult): boolean {
  return result !== false && result !== null;
}

function colorOf({ result }: StateResult, hasChanges: boolean, colors: Colors): string {
  if (result === false) return colors.red;
  if (result === null) return colors.lightYellow;
  return hasChanges ? colors.cyan : colors.green;
}

function withId(state: StateResult, { stateOutput = 'full' }: HighstateOptions): StateResult {
  return stateOutput.toLowerCase().endsWith('_id') ? { ...state, name: state.id } : state;
}

function isTerse(
  { result }: StateResult,
  isAsItShouldBe: boolean,
  { stateOutput = 'full' }: HighstateOptions,
): boolean {
  const mode = stateOutput.toLowerCase();
  if (mode.startsWith('terse')) return true;
  if (mode.startsWith('mixed')) return result !== false;
  return mode.startsWith('changes') && isAsItShouldBe;
}

/** What changed, to be put behind `Changes:`; `undefined`: nothing. */
function formatChanges(changes: WireValue, options: HighstateOptions): string | undefined {
  const entries = mapEntries(changes);
  if (entries === undefined) {
    return changes === null || changes === '' || changes === false
      ? undefined
      : `Invalid Changes data: ${escapeLines(pythonStr(changes))}`;
  }
  if (entries.length === 0) return undefined;
  const nested = isWireMap(changes) && changes.out === 'highstate' ? changes.ret : undefined;
  if (isWireMap(nested)) return formatNestedHosts(nested, options);
  const { colors } = options;
  return `\n${formatNested(changes, { colors, indent: changesIndent }).trimEnd()}`;
}

/** A state that ran states itself, as orchestration does. */
function formatNestedHosts(hosts: WireMap, options: HighstateOptions): string | undefined {
  const parts = Object.entries(hosts).map(([host, data]) => formatHost(host, data, options));
  if (!parts.some(({ hasChanges }) => hasChanges)) return undefined;
  const indent = (text: string): string =>
    splitLines(text)
      .map((line) => ' '.repeat(changesIndent) + line)
      .join('\n');
  return parts.map(({ text }) => `\n${indent(text)}`).join('');
}

// No return [salt output/no_return.py].

/** The minion's id and, below it, why there is no return. */
export function formatNoReturn(minion: string, reason: string, colors: Colors = noColors): string {
  const lines = reason
    .split('\n')
    .map((line) => `${colors.red}    ${escapeLine(line)}${colors.end}`);
  return [`${colors.cyan}${escapeName(minion)}${colors.end}:`, ...lines].join('\n');
}

// Plain outputters, for other programs.

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
function isOutputter(name: string): boolean {
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

/** Where returns go: to a stream, or with `--out-file` to a file. */
export interface OutputSink {
  /** Writes a line; an empty one is left out, as Salt leaves out what has no text. */
  write(text: string): Promise<void>;
}

/** Returns on a stream. */
function streamSink(stream: OutputStream): OutputSink {
  return {
    write: async (text) => {
      if (text !== '') await printLine(stream, text);
    },
  };
}

/** Returns in a file. One that is there is emptied first, unless it is to be continued. */
async function fileSink(
  file: string,
  { append }: { readonly append: boolean },
): Promise<OutputSink> {
  const handle = await open(file, append ? 'a' : 'w');
  await handle.close();
  return {
    write: async (text) => {
      if (text !== '') await appendFile(file, `${text}\n`);
    },
  };
}

// Output options [salt utils/parsers.py OutputOptionsMixIn].

/** As commander names them; each that Salt has two names for is there twice. */
export interface OutputCommandOptions {
  readonly configDir: string;
  readonly out?: string;
  readonly output?: string;
  readonly outIndent?: number;
  readonly outputIndent?: number;
  readonly outFile?: string;
  readonly outputFile?: string;
  readonly outFileAppend?: boolean;
  readonly outputFileAppend?: boolean;
  readonly color: boolean;
  readonly colour: boolean;
  readonly forceColor?: boolean;
  readonly forceColour?: boolean;
  readonly stateOutput?: string;
  readonly stateVerbose?: boolean;
  readonly state_output?: string;
  readonly state_verbose?: boolean;
}

/** What returns are printed with. */
export interface OutputChoice {
  readonly output: OutputOptions;
  readonly sink: OutputSink;
}

export function addOutputOptions(command: Command): void {
  command
    .option('--out <outputter>', 'output format: nested, json, yaml, txt, raw, quiet, …')
    .addOption(new Option('--output <outputter>').hideHelp())
    .option('--out-indent <n>', 'spaces per level; negative: one line', parseInteger)
    .addOption(new Option('--output-indent <n>').argParser(parseInteger).hideHelp())
    .option('--out-file <file>', 'write returns to a file')
    .addOption(new Option('--output-file <file>').hideHelp())
    .option('--out-file-append', 'append to that file')
    .addOption(new Option('--output-file-append').hideHelp())
    .option('--no-color', 'disable colours')
    .addOption(new Option('--no-colour').hideHelp())
    .option('--force-color', 'use colours even if the output is not a terminal')
    .addOption(new Option('--force-colour').hideHelp())
    .option('--state-output <form>', 'format of states: full, terse, mixed, changes')
    .addOption(new Option('--state_output <form>').hideHelp())
    .option('--state-verbose <boolean>', 'also print states without changes', parseBoolean)
    .addOption(new Option('--state_verbose <boolean>').argParser(parseBoolean).hideHelp());
}

/** Chooses outputter, colours and place. @throws ConfigError when the configuration cannot be read */
export async function chooseOutput(
  options: OutputCommandOptions,
  {
    stdout,
    stderr,
    commandDefaults,
  }: Pick<CommandContext, 'stdout' | 'stderr' | 'commandDefaults'>,
): Promise<OutputChoice> {
  const defaults = await commandDefaults(options.configDir);
  const outputter = options.out ?? options.output ?? defaults.output ?? undefined;
  const file = options.outFile ?? options.outputFile;
  if (outputter !== undefined && !isOutputter(outputter)) {
    const name = escapeName(outputter);
    await printLine(stderr, `[ERROR   ] Invalid outputter ${name} specified, fall back to nested`);
  }
  const isColored = wantsColors(options, defaults) ?? stdout.isTTY === true;
  return {
    output: {
      outputter,
      indent: options.outIndent ?? options.outputIndent,
      colors: isColored ? terminalColors : noColors,
      stateOutput: options.stateOutput ?? options.state_output ?? defaults.stateOutput,
      stateVerbose: options.stateVerbose ?? options.state_verbose ?? defaults.stateVerbose,
      stateProfile: defaults.stateOutputProfile,
    },
    sink:
      file === undefined
        ? streamSink(stdout)
        : await fileSink(file, {
            append: options.outFileAppend === true || options.outputFileAppend === true,
          }),
  };
}

/** `undefined`: as the terminal has it. */
function wantsColors(
  { forceColor, forceColour, color, colour }: OutputCommandOptions,
  defaults: CommandDefaults,
): boolean | undefined {
  if (forceColor === true || forceColour === true) return true;
  return color && colour ? (defaults.color ?? undefined) : false;
}

function parseInteger(text: string): number {
  if (!/^-?\d{1,3}$/.test(text)) throw new InvalidArgumentError('expected a whole number.');
  return Number(text);
}

function parseBoolean(text: string): boolean {
  if (/^[Tt]rue$/.test(text)) return true;
  if (/^[Ff]alse$/.test(text)) return false;
  throw new InvalidArgumentError('expected True or False.');
}
