import { numericText, type OptionKind } from './option-kinds.ts';
import { entriesOf } from './section-kind.ts';

/** Configuration directories by the names of tenants. */
export type TenantDirectories = Readonly<Record<string, string>>;

const tenantName = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$/;

/** Names that can stand in a log, each with a directory; relative ones are told from the main file. */
export const tenantDirectories: OptionKind<TenantDirectories> = {
  expected: 'a map of names (letters, digits, _ . -) to configuration directories',
  isPath: false,
  parse: (value) => {
    const directories: [string, string][] = [];
    for (const [name, given] of entriesOf(value) ?? []) {
      const directory = numericText.parse(given);
      if (directory === undefined || !tenantName.test(name)) return undefined;
      directories.push([name, directory]);
    }
    return entriesOf(value) === undefined ? undefined : Object.fromEntries(directories);
  },
};
