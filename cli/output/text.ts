/** Salt's plain outputters: lines for other programs. */
import type { WireValue } from '../../minion-protocol/index.ts';
import { escapeLine, escapeLines, escapeName } from './escape.ts';
import { keyText, mapEntries } from './map-entries.ts';
import { pythonLines } from './python.ts';
import { pythonRepr, pythonStr } from './python-repr.ts';

/** `txt`: each line of each value behind its key [salt output/txt.py]. */
export function formatTxt(value: WireValue): string {
  const entries = mapEntries(value);
  if (entries === undefined) return escapeLines(pythonStr(value));
  return entries
    .flatMap(([key, item]) => {
      const lines = typeof item === 'string' ? pythonLines(item) : [pythonRepr(item)];
      return lines.map((line) => `${escapeName(keyText(key))}: ${escapeLine(line)}`);
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
