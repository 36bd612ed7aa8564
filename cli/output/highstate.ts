/** Salt's outputter for results of states [salt output/highstate.py]. */

import { isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import { splitLines } from '#template/python/text.ts';
import { type Colors, escapeLine, escapeLines, escapeName } from '../terminal.ts';
import { formatNested } from './nested.ts';
import { formatPprint, mapEntries, pythonStr, wrapText } from './value-text.ts';

/** Result of one state on one minion. */
interface StateResult {
  /** Name of the state's module, such as `pkg`. */
  readonly module: string;
  readonly id: string;
  readonly name: string;
  readonly fun: string;
  readonly runNumber: number;
  /** Result of the state. `null` means that it would make changes (`test=True`). */
  readonly result: WireValue;
  readonly changes: WireValue;
  readonly comment: WireValue;
  /** Data of the state function. It is printed below the comment. */
  readonly data: WireValue | undefined;
  readonly startTime: WireValue | undefined;
  /** Duration of the state, in milliseconds. */
  readonly duration: WireValue | undefined;
  readonly warnings: readonly WireValue[];
  readonly isParallel: boolean;
}

/** Column at which the text after `Comment:` and `Changes:` begins. */
const changesIndent = 14;

/**
 * Reads a state from a key `module_|-id_|-name_|-fun` and its value. Returns `undefined` if the key
 * or value does not describe a state.
 */
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

/** Formats a state in full. */
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

/** Formats a state in one line. */
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

/** Width of the longest label in the summary, `Succeeded`. */
const labelWidth = 9;

/** Counts the states that are printed, for the summary. */
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

  /** Returns the summary, which begins with an empty line. */
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

/** Display options of states. They have the names of Salt's options. */
interface HighstateOptions {
  readonly colors: Colors;
  /**
   * `state_output`: `full`, `terse`, `mixed` or `changes`, each also with the suffix `_id`.
   * Default: `full`.
   */
  readonly stateOutput?: string | undefined;
  /** `state_verbose`: whether unchanged states are printed too. Default: true. */
  readonly stateVerbose?: boolean | undefined;
  /** `state_output_profile`: whether start and duration of a state are printed. Default: true. */
  readonly stateProfile?: boolean | undefined;
}

/**
 * Formats the states of all minions with a summary for each minion. Returns `undefined` if the data
 * is not a map of minions.
 */
export function formatHighstate(data: WireValue, options: HighstateOptions): string | undefined {
  const unwrapped = unwrap(data);
  const hosts = mapEntries(unwrapped);
  if (hosts === undefined) return undefined;
  return hosts.map(([host, value]) => formatHost(pythonStr(host), value, options).text).join('\n');
}

/** Removes the outer maps that runners and `jobs.lookup_jid` add around the results of states. */
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

/**
 * Formats states without an order number, which cannot be sorted. They are printed first, in
 * another format.
 */
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

/** Formats the text after `Changes:`. Returns `undefined` if the state has changed nothing. */
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

/** Formats the changes of a state that ran states on other hosts, such as an orchestration. */
function formatNestedHosts(hosts: WireMap, options: HighstateOptions): string | undefined {
  const parts = Object.entries(hosts).map(([host, data]) => formatHost(host, data, options));
  if (!parts.some(({ hasChanges }) => hasChanges)) return undefined;
  const indent = (text: string): string =>
    splitLines(text)
      .map((line) => ' '.repeat(changesIndent) + line)
      .join('\n');
  return parts.map(({ text }) => `\n${indent(text)}`).join('');
}
