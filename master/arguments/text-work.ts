/** What callers write as YAML, read here or in a thread. */
import type { WireValue } from '../../minion-protocol/index.ts';
import { parseArgument, parseArguments } from './arguments.ts';
import { maxPlainDepth, toPlainValue } from './plain-value.ts';
import { parseYaml } from './yaml.ts';

/** A text to be read. */
export type TextTask =
  | { readonly kind: 'yaml'; readonly text: string; readonly maxValues: number }
  | { readonly kind: 'values'; readonly inputs: readonly string[] }
  | {
      readonly kind: 'words';
      readonly inputs: readonly string[];
      readonly noParse: readonly string[];
    };

/** What a thread says of one: JSON with marks, or why it is not read. */
export type TextAnswer =
  | { readonly ok: true; readonly json: string }
  | { readonly ok: false; readonly problem: string };

/** @throws Error for what cannot be read; words always can */
export function readText(task: TextTask): WireValue {
  if (task.kind === 'yaml') {
    const limits = { maxValues: task.maxValues, maxDepth: maxPlainDepth, isPlain: true };
    return toPlainValue(parseYaml(task.text, limits));
  }
  if (task.kind === 'values') return task.inputs.map((input) => toPlainValue(parseArgument(input)));
  const { arg, kwarg } = parseArguments(task.inputs, task.noParse);
  return { arg: [...arg], kwarg };
}

/** Characters that a task has to look at. */
export function sizeOf(task: TextTask): number {
  if (task.kind === 'yaml') return task.text.length;
  return task.inputs.reduce((sum, input) => sum + input.length, 0);
}
