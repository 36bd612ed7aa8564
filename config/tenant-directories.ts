/** Option `saltbridge: tenants:`, the configuration directories of tenants by name. */

import { ConfigError, typeError } from './config-error.ts';
import { custom, numericText, parseValue } from './schema.ts';
import { sectionEntries, settingsOf } from './settings.ts';

const nameForm = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$/;

/**
 * Schema of tenants: a map of names to directories. Names may contain only characters that are safe
 * in logs.
 */
export const tenantDirectories = custom<Readonly<Record<string, string>>>(
  {
    expected: 'a map of names (letters, digits, _ . -) to configuration directories',
    accept: (value) => {
      const directories: [string, string][] = [];
      for (const [name, given] of sectionEntries(value) ?? []) {
        const directory = parseValue(numericText(), given);
        if (directory === undefined || !nameForm.test(name)) return undefined;
        directories.push([name, directory]);
      }
      return sectionEntries(value) === undefined ? undefined : Object.fromEntries(directories);
    },
    explain: (setting) =>
      settingsOf(setting).flatMap(([name, inner]) => {
        if (!nameForm.test(name)) {
          const problem = 'invalid name: expected letters, digits, _ . -';
          return [new ConfigError('ERR_OPTION_TYPE', inner.origin, problem)];
        }
        const isRefused = parseValue(numericText(), inner.value) === undefined;
        return isRefused ? [typeError(inner.origin, inner.value, 'a directory')] : [];
      }),
  },
  { each: { type: 'string' } },
);
