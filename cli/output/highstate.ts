/** Salt's outputter for what states return [salt output/highstate.py]. */
import type { WireMap, WireValue } from '../../minion-protocol/index.ts';
import { isWireMap } from '../../minion-protocol/index.ts';
import type { Colors } from './colors.ts';
import { escapeLine, escapeLines, escapeName } from './escape.ts';
import {
  changesIndent,
  formatState,
  formatTerse,
  type StateResult,
  toStateResult,
} from './highstate-state.ts';
import { HighstateSummary } from './highstate-summary.ts';
import { keyText, mapEntries } from './map-entries.ts';
import { formatNested } from './nested.ts';
import { formatPprint } from './pprint.ts';
import { pythonLines } from './python.ts';
import { pythonStr } from './python-repr.ts';

/** How states are shown; Salt's options of these names. */
export interface HighstateOptions {
  readonly colors: Colors;
  /** `state_output`: full, terse, mixed or changes, each also with `_id`. Default `full`. */
  readonly stateOutput?: string | undefined;
  /** `state_verbose`: also states that are as they should be. Default true. */
  readonly stateVerbose?: boolean | undefined;
}

/** A minion's states one below the other, with a summary; `undefined`: no map of minions. */
export function formatHighstate(data: WireValue, options: HighstateOptions): string | undefined {
  const unwrapped = unwrap(data);
  const hosts = mapEntries(unwrapped);
  if (hosts === undefined) return undefined;
  return hosts.map(([host, value]) => formatHost(keyText(host), value, options).text).join('\n');
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
  const lines = typeof data === 'string' ? pythonLines(data) : [pythonStr(data)];
  const shown = lines.map((line) => `${colors.green}    ${escapeLine(line)}${colors.end}`);
  return { text: [title(colors.cyan), ...shown].join('\n'), hasChanges: true };
}

function formatStates(host: string, data: WireMap, options: HighstateOptions): HostText {
  const { colors } = options;
  const states = Object.entries(data)
    .flatMap(([name, info]) => toStateResult(name, info) ?? [])
    .sort((left, right) => left.runNumber - right.runNumber);
  const summary = new HighstateSummary(host, colors);
  const lines: string[] = unordered(data);
  let color = colors.green;
  for (const state of states) {
    const changes = formatChanges(state.changes, options);
    summary.add(state, changes !== undefined);
    const isAsItShouldBe = isGood(state) && changes === undefined;
    if (options.stateVerbose === false && isAsItShouldBe) continue;
    const stateColor = colorOf(state, changes !== undefined, colors);
    if (state.result === false || state.result === null) color = stateColor;
    const shown = withId(state, options);
    lines.push(
      isTerse(state, isAsItShouldBe, options)
        ? formatTerse(shown, stateColor, colors)
        : formatState(shown, changes ?? '', stateColor, colors),
    );
  }
  const text = [`${color}${escapeName(host)}:${colors.end}`, ...lines, summary.format()].join('\n');
  return { text, hasChanges: summary.hasChanges };
}

/** States without their number cannot be put in order; they are shown first, as they are. */
function unordered(data: WireMap): string[] {
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

function isGood({ result }: StateResult): boolean {
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
    pythonLines(text)
      .map((line) => ' '.repeat(changesIndent) + line)
      .join('\n');
  return parts.map(({ text }) => `\n${indent(text)}`).join('');
}
