/** Configuration of a site: its own options together with the options of its bundle. */

import { stat } from 'node:fs/promises';
import path from 'node:path';
import {
  ConfigError,
  type MasterConfig,
  type OverlaidConfig,
  overlayConfig,
  type ReadOptions,
  readOptions,
} from '#config';
import { errorMessage, ifPresent, readTextIfPresent } from '#runtime';
import { EdgeError } from '../errors.ts';
import { parseApprovedPlans } from '../orders/approved-plan-file.ts';
import { BundleDirectory } from './bundle-directory.ts';
import { mapPaths, permittedOptions } from './bundle-options.ts';
import { type Manifest, ordersFile } from './manifest.ts';

/** Returns the path of the symbolic link to the bundle that a site uses. */
export function currentBundle(stateDir: string): string {
  return path.join(stateDir, 'site', 'current');
}

/**
 * Adds the options of a bundle to the configuration of a site. Returns the configuration unchanged
 * if the master is not a site, or has no bundle yet.
 * @param bundle - directory of the bundle. Default: the bundle that the site uses
 */
export async function withBundle(
  config: MasterConfig,
  bundle: string = currentBundle(config.stateDir),
): Promise<OverlaidConfig> {
  if (config.site === null) return { config, problems: [] };
  const ofOrders = await mistakesOfOrders(bundle);
  const directory = path.join(bundle, 'etc');
  if (!(await isDirectory(directory))) return { config, problems: ofOrders };
  const given = await optionsOf(bundle);
  const mapped = mapPaths(permittedOptions(given.settings), (place, option) =>
    option === 'catalog' && !path.isAbsolute(place)
      ? path.join(directory, place)
      : path.join(bundle, 'tree', place),
  );
  const { config: whole, problems } = overlayConfig(config, mapped, path.join(directory, 'master'));
  const ofFiles = given.problems.filter(({ code }) => code.startsWith('ERR_CONFIG'));
  return { config: whole, problems: [...ofFiles, ...problems, ...ofOrders] };
}

/**
 * Reads the options of a bundle. The result does not depend on the directory of the site, so several
 * sites in one process can share it. For example, error messages name the files `bundle:etc`.
 */
function optionsOf(bundle: string): Promise<ReadOptions> {
  return readOptions(path.join(bundle, 'etc'), 'bundle:etc');
}

async function mistakesOfOrders(bundle: string): Promise<readonly ConfigError[]> {
  const text = await readTextIfPresent(path.join(bundle, ordersFile));
  try {
    parseApprovedPlans(text ?? '');
    return [];
  } catch (cause) {
    if (!(cause instanceof EdgeError)) throw cause;
    const origin = { file: bundle, line: 0, key: '' };
    return [new ConfigError('ERR_CONFIG_SYNTAX', origin, cause.message, { cause })];
  }
}

/**
 * Switches a site back to its former bundle if the last switch is not confirmed yet.
 * @param error - failure of the start with the new bundle
 * @returns whether the site had a switch to revert
 */
export async function revertBundle(stateDir: string, error: unknown): Promise<boolean> {
  const bundles = new BundleDirectory(path.join(stateDir, 'site'));
  const pending = await bundles.pending();
  if (pending === undefined) return false;
  const message = `the master did not start: ${errorMessage(error)}`;
  await bundles.revert({ version: pending.to, code: 'ERR_BUNDLE_CHECK', message });
  return true;
}

/** Returns the paths and digests of the catalog files of a bundle, as one text for comparison. */
export async function catalogDigest(bundle: string, { files }: Manifest): Promise<string> {
  const { settings } = await optionsOf(bundle);
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

async function isDirectory(directory: string): Promise<boolean> {
  return (await ifPresent(stat(directory)))?.isDirectory() === true;
}
