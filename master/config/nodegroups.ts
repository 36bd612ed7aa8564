import type { Nodegroups } from '../../minion-protocol/index.ts';
import type { OptionKind } from './option-kinds.ts';
import { isSettings } from './settings.ts';

/** Names with a compound expression each, as text or as a list of words. */
export const nodegroups: OptionKind<Nodegroups> = {
  expected: 'a map of names to expressions, each as text or as a list of words',
  isPath: false,
  parse: (value) => {
    const entries = entriesOf(value)?.map(([name, group]) => [name, definition(group)] as const);
    const isComplete = entries?.every(([, group]) => group !== undefined);
    // An entry without a definition was refused in the line above.
    return isComplete ? (Object.fromEntries(entries ?? []) as Nodegroups) : undefined;
  },
};

/** From a file, or from a program. */
function entriesOf(value: unknown): [string, unknown][] | undefined {
  if (isSettings(value)) return [...value].map(([name, setting]) => [name, setting.value]);
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? Object.entries(value) : undefined;
}

function definition(value: unknown): string | readonly string[] | undefined {
  if (typeof value === 'string') return value;
  const isList = Array.isArray(value) && value.every((word) => isWord(word));
  return isList ? value.map(String) : undefined;
}

function isWord(value: unknown): boolean {
  return typeof value === 'string' || typeof value === 'number';
}
