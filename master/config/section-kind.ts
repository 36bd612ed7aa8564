import type { OptionKind } from './option-kinds.ts';
import { isSettings } from './settings.ts';

/** One member of a map: its name in files, and how its value is checked. */
interface SectionRow<T> {
  readonly name: string;
  readonly kind: OptionKind<T>;
}

/** A row for each member that may be set. */
export type SectionTable<T> = { readonly [Name in keyof T]-?: SectionRow<NonNullable<T[Name]>> };

/**
 * Reads a map of a few named values, none of which must be there: by their names in files, by
 * their members where a program passes them. `undefined` when it is none, or has others.
 */
export function readSection<T extends object>(
  table: SectionTable<T>,
  value: unknown,
): Partial<T> | undefined {
  const entries = entriesOf(value);
  if (entries === undefined) return undefined;
  const section: Partial<T> = {};
  for (const [given, found] of entries) {
    const member = memberOf(table, given, isSettings(value));
    const read = member === undefined ? undefined : table[member].kind.parse(found);
    if (member === undefined || read === undefined) return undefined;
    section[member] = read;
  }
  return section;
}

/** From a file, or from a program. What has no value is not set. */
export function entriesOf(value: unknown): (readonly [string, unknown])[] | undefined {
  if (isSettings(value)) {
    return [...value].flatMap(([name, setting]) =>
      setting.value === null ? [] : [[name, setting.value] as const],
    );
  }
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? Object.entries(value).filter(([, found]) => found !== undefined) : undefined;
}

function memberOf<T extends object>(
  table: SectionTable<T>,
  given: string,
  isInFile: boolean,
): keyof T | undefined {
  for (const member in table) {
    if (given === (isInFile ? table[member].name : member)) return member;
  }
  return undefined;
}
