/**
 * Reads the source of a release: the configuration directory for sites, and the files that it
 * names.
 */

import type { Stats } from 'node:fs';
import { lstat, readdir } from 'node:fs/promises';
import path from 'node:path';
import { type CheckedConfig, ConfigError, checkMasterConfig, expandGlob } from '#config';
import { compareTexts, isMissing, readTextIfPresent } from '#runtime';
import { EdgeError } from '../errors.ts';
import { parseApprovedPlans } from '../orders/approved-plan-file.ts';
import { mapPaths, type PathOption, refusedOptions } from './bundle-options.ts';
import {
  type BundleFile,
  bundleBounds,
  ordersFile,
  requireInnerPath,
  requireValidFiles,
} from './manifest.ts';
import type { ObjectStore } from './object-store.ts';

/** Files of a new release, with warnings about its source. */
export interface PackedSource {
  readonly files: readonly BundleFile[];
  /** Warnings about settings of the source that have no effect. */
  readonly warnings: readonly string[];
}

/**
 * Reads the source of a release and stores its files.
 * @throws ConfigError for a mistake in the configuration, or an option that a release must not
 * contain
 * @throws EdgeError ERR_BUNDLE_PATH, ERR_BUNDLE_CONTENT, ERR_RELEASE if a file cannot be part of a
 * release
 * @throws EdgeError ERR_ORDER_INVALID if `orders.yml` is invalid
 */
export async function packSource(source: string, objects: ObjectStore): Promise<PackedSource> {
  const checked = await checkMasterConfig(source);
  const mistake = ConfigError.of([...checked.problems, ...refusedOptions(checked.settings)]);
  if (mistake !== undefined) throw mistake;
  const collector = new FileCollector(objects);
  for (const file of checked.files) {
    await collector.add(path.join('etc', innerPath(source, file)), file);
  }
  for (const { place, option } of placesIn(checked))
    await addPlace(collector, source, place, option);
  await collector.addTree('keys', path.join(source, 'keys'));
  const orders = path.join(source, ordersFile);
  parseApprovedPlans((await readTextIfPresent(orders)) ?? '');
  await collector.addTree(ordersFile, orders);
  const files = collector.sorted();
  requireValidFiles(files);
  return { files, warnings: checked.warnings.map(({ message }) => message) };
}

/**
 * Returns the path of a file relative to a directory.
 * @throws EdgeError ERR_BUNDLE_PATH if the file is not in the directory
 */
function innerPath(directory: string, file: string): string {
  const relative = path.relative(directory, file);
  if (relative.startsWith('..') || path.isAbsolute(relative)) {
    throw new EdgeError('ERR_BUNDLE_PATH', `${file} is outside of ${directory}`);
  }
  return relative;
}

interface Place {
  readonly place: string;
  readonly option: PathOption;
}

function placesIn({ settings }: CheckedConfig): readonly Place[] {
  const places: Place[] = [];
  mapPaths(settings, (place, option) => {
    places.push({ place, option });
    return place;
  });
  return places;
}

async function addPlace(
  collector: FileCollector,
  source: string,
  place: string,
  option: PathOption,
): Promise<void> {
  if (option === 'catalog' && !path.isAbsolute(place)) {
    const file = path.resolve(source, place);
    return collector.addTree(path.join('etc', innerPath(source, file)), file);
  }
  // The site matches globs and environments again below the same directory.
  const isPattern = /[*?[]/.test(place);
  const found = isPattern ? await expandGlob(place) : [place.split('/__env__')[0] ?? place];
  for (const file of found) {
    const absolute = path.resolve(file);
    await collector.addTree(path.join('tree', absolute), absolute);
  }
}

/** Files of a release by their path in the bundle. */
class FileCollector {
  readonly #objects: ObjectStore;
  readonly #files = new Map<string, BundleFile>();
  #bytes = 0;

  constructor(objects: ObjectStore) {
    this.#objects = objects;
  }

  sorted(): readonly BundleFile[] {
    return [...this.#files.values()].sort((a, b) => compareTexts(a.path, b.path));
  }

  /**
   * Adds a file, or all files below a directory, to the release. Adds nothing if `place` does not
   * exist.
   * @param inner - path in the bundle
   * @param place - path of the file or directory on this machine
   */
  async addTree(inner: string, place: string): Promise<void> {
    const stats = await statOf(place);
    if (stats === undefined) return;
    if (!stats.isDirectory()) return this.#addFile(inner, place, stats);
    const pending: (readonly [inner: string, place: string])[] = [[inner, place]];
    for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
      const [above, directory] = next;
      for (const { name } of await readdir(directory, { withFileTypes: true })) {
        const file = path.join(directory, name);
        const found = await statOf(file);
        if (found?.isDirectory()) pending.push([path.join(above, name), file]);
        else if (found !== undefined) await this.#addFile(path.join(above, name), file, found);
      }
    }
  }

  /** Adds a file at the path `inner` of the bundle. Adds nothing if the file does not exist. */
  async add(inner: string, file: string): Promise<void> {
    const stats = await statOf(file);
    if (stats !== undefined) await this.#addFile(inner, file, stats);
  }

  async #addFile(inner: string, file: string, stats: Stats): Promise<void> {
    if (this.#files.has(inner)) return;
    if (!stats.isFile()) {
      const problem = 'only files and directories can be part of a release';
      throw new EdgeError('ERR_BUNDLE_PATH', `${file}: ${problem}`);
    }
    requireInnerPath(inner);
    if (this.#files.size >= bundleBounds.files) {
      throw new EdgeError('ERR_RELEASE', `the source has more than ${bundleBounds.files} files`);
    }
    const stored = await this.#objects.add(file, bundleBounds.totalBytes - this.#bytes);
    this.#bytes += stored.length;
    this.#files.set(inner, { path: inner, ...stored, executable: (stats.mode & 0o111) !== 0 });
  }
}

/**
 * Returns the status of a file, or `undefined` if it does not exist.
 * @throws EdgeError ERR_BUNDLE_PATH if it is a symbolic link
 */
async function statOf(file: string): Promise<Stats | undefined> {
  try {
    const stats = await lstat(file);
    if (stats.isSymbolicLink()) throw throughLink(file);
    return stats;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

function throughLink(file: string): EdgeError {
  const problem = 'symbolic links cannot be part of a release; replace the link by its target';
  return new EdgeError('ERR_BUNDLE_PATH', `${file}: ${problem}`);
}
