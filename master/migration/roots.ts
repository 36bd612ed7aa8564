/** The directories that hold a site's files. */
import type { Settings } from '../config/settings.ts';
import { pairsOf, textsOf } from './plain-values.ts';

/** A directory of `file_roots`, `pillar_roots` or `thorium_roots`. */
export interface Root {
  readonly directory: string;
  readonly saltenv: string;
  /** Where it is named; the main file's name and 0 for Salt's default. */
  readonly file: string;
  readonly line: number;
}

/** [salt/config/__init__.py DEFAULT_MASTER_OPTS of 3007.0] */
const defaults = {
  file_roots: '/srv/salt',
  pillar_roots: '/srv/pillar',
  thorium_roots: '/srv/thorium',
} as const;

/** The directories that an option names, or Salt's default. Special ones (`__env__`) are left out. */
export function rootsOf(settings: Settings, option: keyof typeof defaults): Root[] {
  const setting = settings.get(option);
  const { file, line } = setting?.origin ?? { file: '', line: 0 };
  if (setting === undefined || setting.value === null) {
    return [{ directory: defaults[option], saltenv: 'base', file, line }];
  }
  return pairsOf(setting.value).flatMap(([saltenv, directories]) =>
    textsOf(directories)
      .filter((directory) => directory.startsWith('/'))
      .map((directory) => ({ directory, saltenv, file, line })),
  );
}
