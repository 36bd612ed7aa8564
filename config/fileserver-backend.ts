/** Salt's option `fileserver_backend`, which lists the backends that serve files to minions. */

import { type ConfigWarning, placeOf } from './config-error.ts';
import { custom, parseValue, textList } from './schema.ts';
import { originOfSetting, type Settings, textsOf, toPlain } from './settings.ts';

/** File backend that this master supports. */
export type BackendName = 'roots' | 'gitfs';

/** Supported backends by their names in Salt. */
const served: ReadonlyMap<string, BackendName> = new Map([
  ['roots', 'roots'],
  ['git', 'gitfs'],
  ['gitfs', 'gitfs'],
]);

/**
 * Schema of the file backends, in the order in which files are looked up. Unsupported backends are
 * skipped with a warning.
 */
export const fileserverBackends = custom<readonly BackendName[]>(
  {
    expected: 'a list of file backends: roots, gitfs',
    accept: (value) => {
      const names = parseValue(textList(), value)?.map((name) => served.get(name));
      return names && [...new Set(names.filter((name) => name !== undefined))];
    },
  },
  { type: 'array', items: { type: 'string' } },
);

/**
 * Returns a warning for each unsupported backend. If git repositories are configured but the git
 * backend is not enabled, returns a warning about that too.
 */
export function warnOfFileBackends(settings: Settings): ConfigWarning[] {
  const setting = settings.get('fileserver_backend');
  const names = textsOf(toPlain(setting?.value));
  const others = names.filter((name) => !served.has(name));
  const warnings = others.map((name): ConfigWarning => {
    const origin = originOfSetting(settings, 'fileserver_backend');
    const advice = 'the file server supports the backends roots and gitfs';
    const message = `${placeOf(origin)}: fileserver_backend: ${name} is not supported: ${advice}`;
    return { kind: 'not-served', ...origin, message };
  });
  const remotes = settings.get('gitfs_remotes');
  const isUnused = !names.some((name) => served.get(name) === 'gitfs');
  if (remotes === undefined || textsOfRemotes(remotes.value) === 0 || !isUnused) return warnings;
  const message = `${placeOf(remotes.origin)}: gitfs_remotes has no effect: add gitfs to fileserver_backend`;
  return [...warnings, { kind: 'bounded', ...remotes.origin, message }];
}

function textsOfRemotes(value: unknown): number {
  return Array.isArray(value) ? value.length : value === null ? 0 : 1;
}
