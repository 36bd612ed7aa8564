/** Configuration of a site: its own options and those of its bundle. */

import { stat } from 'node:fs/promises';
import path from 'node:path';
import { type CheckedConfig, checkMasterConfig, completeSettings } from '#config';
import { mapPaths, mergeOptions } from './bundle-options.ts';
import type { Manifest } from './manifest.ts';

/** Returns the path of the symbolic link to the bundle that a site uses. */
export function currentBundle(stateDir: string): string {
  return path.join(stateDir, 'site', 'current');
}

/**
 * Adds the options of a bundle to the configuration of a site. The configuration of a master that is
 * not a site, or that has no bundle yet, does not change.
 * @param bundle directory of the bundle. Default: the bundle that the site uses
 */
export async function withBundle(
  checked: CheckedConfig,
  bundle: string = currentBundle(checked.config.stateDir),
): Promise<CheckedConfig> {
  const { settings, config, problems, files } = checked;
  const directory = path.join(bundle, 'etc');
  if (config.site === null || !(await isDirectory(directory))) return checked;
  const given = await checkMasterConfig(directory);
  const mapped = mapPaths(given.settings, (place, option) =>
    option === 'catalog' && !path.isAbsolute(place)
      ? path.join(directory, place)
      : path.join(bundle, 'tree', place),
  );
  const merged = mergeOptions(settings, mapped);
  const mainFile = config.confFile;
  const whole = completeSettings(merged, mainFile);
  return {
    ...checked,
    config: whole.config,
    settings: merged,
    files: [...files, ...given.files],
    problems: [
      ...ofFiles(problems, completeSettings(settings, mainFile).problems),
      ...ofFiles(given.problems, completeSettings(given.settings, given.config.confFile).problems),
      ...whole.problems,
    ],
  };
}

/** Returns a text that differs if the files of the catalogs of two bundles differ. */
export async function catalogDigest(bundle: string, { files }: Manifest): Promise<string> {
  const { settings } = await checkMasterConfig(path.join(bundle, 'etc'));
  const places: string[] = [];
  mapPaths(settings, (place, option) => {
    if (option === 'catalog') {
      places.push(path.isAbsolute(place) ? path.join('tree', place) : path.join('etc', place));
    }
    return place;
  });
  return files
    .filter(({ path: inner }) => places.some((it) => inner === it || inner.startsWith(`${it}/`)))
    .map(({ path: inner, sha256 }) => `${inner} ${sha256}`)
    .join('\n');
}

type Problems = CheckedConfig['problems'];

/** Returns the problems of the files themselves, which precede those of the options. */
function ofFiles(all: Problems, ofOptions: Problems): Problems {
  return all.slice(0, all.length - ofOptions.length);
}

async function isDirectory(directory: string): Promise<boolean> {
  return (await stat(directory).catch(() => undefined))?.isDirectory() === true;
}
