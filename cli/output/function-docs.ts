/** What `sys.doc` gives, as `salt` prints it [salt cli/salt.py _print_docs]. */
import type { WireValue } from '../../minion-protocol/index.ts';
import { escapeLines, escapeName } from './escape.ts';
import { keyText, mapEntries } from './map-entries.ts';
import { compareCodePoints } from './python.ts';
import { pythonStr } from './python-repr.ts';
import { formatData, type MinionReturn, type OutputOptions } from './returns.ts';

/** Each function's text once, whichever minion has it first; sorted. */
export function formatDocs(results: readonly MinionReturn[], options: OutputOptions): string[] {
  const docs = new Map<string, WireValue>();
  for (const { value } of results) {
    for (const [key, text] of mapEntries(value) ?? []) {
      const fun = keyText(key);
      if (!docs.has(fun) && text !== null && text !== '') docs.set(fun, text);
    }
  }
  const sorted = [...docs].sort(([left], [right]) => compareCodePoints(left, right));
  return sorted.map(([fun, text]) =>
    options.outputter === undefined
      ? `${escapeName(fun)}:\n${escapeLines(pythonStr(text))}\n`
      : formatData(new Map([[fun, text]]), 'nested', options),
  );
}
