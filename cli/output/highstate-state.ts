/** One state as the highstate outputter shows it. */
import { isWireMap, type WireValue } from '../../minion-protocol/index.ts';
import type { Colors } from './colors.ts';
import { escapeLines, escapeName } from './escape.ts';
import { mapEntries } from './map-entries.ts';
import { pythonStr } from './python-repr.ts';
import { wrapText } from './python-wrap.ts';

/** What a minion says of one state. */
export interface StateResult {
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
export const changesIndent = 14;

/** Reads `module_|-id_|-name_|-fun` and its value; `undefined`: it is no state. */
export function toStateResult(key: string, info: WireValue): StateResult | undefined {
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
export function formatState(
  state: StateResult,
  changes: string,
  color: string,
  colors: Colors,
): string {
  const { module, id, name, fun, result, startTime, duration, warnings } = state;
  const field = (text: string): string => `    ${color}${text}${colors.end}`;
  const lines = [`${color}----------${colors.end}`, field(`      ID: ${escapeName(id)}`)];
  lines.push(field(`Function: ${escapeName(module)}.${escapeName(fun)}`));
  if (name !== id) lines.push(field(`    Name: ${escapeName(name)}`));
  lines.push(field(`  Result: ${escapeName(pythonStr(result))}`));
  lines.push(field(` Comment: ${formatComment(state)}`));
  if (startTime !== undefined) {
    const time = duration === undefined || duration === '' ? '' : `${pythonStr(duration)} ms`;
    lines.push(field(` Started: ${escapeName(pythonStr(startTime))}`));
    lines.push(field(`Duration: ${escapeName(time)}`));
  }
  lines.push(`${color}     Changes:   ${changes}${colors.end}`);
  if (warnings.length > 0) lines.push(formatWarnings(warnings, colors));
  return lines.join('\n');
}

/** A state on one line. */
export function formatTerse(state: StateResult, color: string, colors: Colors): string {
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
  if (startTime !== undefined) {
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
