/**
 * Checks a configuration directory. It finds every error that would prevent `saltbridge master`
 * from starting, and every setting that has no effect.
 */

import path from 'node:path';
import {
  type CheckedConfig,
  ConfigError,
  type ConfigWarning,
  checkMasterConfig,
  type LoadedTenants,
  loadTenants,
  type OptionOrigin,
  originOfPath,
  placeWithin,
  type Settings,
} from '#config';
import { checkBridgeOptions } from '#guests';
import { keyPath, type SectionProblem } from '#heat-bridge';
import type { ValuePath } from '#runtime';
import {
  findMissingFiles,
  findMissingRoots,
  findUnreadableCertificates,
  isDirectory,
  type ValueProblem,
} from './named-files.ts';
import { findUnservedFunctions } from './named-functions.ts';

/**
 * Result of checking a configuration directory and the configuration directories of its tenants.
 */
export interface ConfigCheck {
  readonly directory: string;
  /** Every file that was read. */
  readonly files: readonly string[];
  /** Errors that prevent the start of the master. */
  readonly problems: readonly ConfigError[];
  /** Settings that have no effect, or a different effect than in Salt. */
  readonly warnings: readonly ConfigWarning[];
  /** Configuration with which the master can be started. Absent if an error prevents the start. */
  readonly loaded: LoadedTenants | undefined;
}

/**
 * Reads and checks a configuration directory and the files that its options name. It does not open
 * the store or a port, and changes nothing.
 */
export async function checkServerConfig(directory: string): Promise<ConfigCheck> {
  const main = await checkDirectory(directory);
  if (main === undefined) {
    const problems = [noDirectory(directory)];
    return { directory, files: [], problems, warnings: [], loaded: undefined };
  }
  const names = Object.entries(main.config.tenants);
  const masters = names.length === 0 ? [await withNamedFiles(main)] : [main];
  for (const [name, given] of names) {
    const own = path.resolve(directory, given);
    const key = ['saltbridge', 'tenants', name];
    const tenant = await checkDirectory(own);
    masters.push(
      tenant === undefined
        ? {
            ...main,
            files: [],
            warnings: [],
            problems: [noDirectory(own, originAt(main.settings, key))],
          }
        : await withNamedFiles(tenant),
    );
  }
  const mistakes = masters.flatMap((it) => it.problems);
  const { problems, loaded } =
    mistakes.length > 0 ? { problems: mistakes, loaded: undefined } : await join(directory);
  return {
    directory,
    files: masters.flatMap(({ files }) => files),
    problems,
    warnings: masters.flatMap(({ warnings }) => warnings),
    loaded,
  };
}

/**
 * Loads the master of a directory together with all its tenants. Returns an error if tenants
 * conflict that are valid separately, for example because they use the same port.
 */
async function join(directory: string): Promise<Pick<ConfigCheck, 'loaded' | 'problems'>> {
  try {
    return { problems: [], loaded: await loadTenants(directory) };
  } catch (error) {
    if (error instanceof ConfigError) return { problems: error.problems, loaded: undefined };
    throw error;
  }
}

/**
 * Checks one configuration directory. If the master is a site, adds the bundle: the options that
 * its central master (the centre) has published. Returns `undefined` if the directory does not
 * exist.
 */
async function checkDirectory(directory: string): Promise<CheckedConfig | undefined> {
  if (!(await isDirectory(directory))) return undefined;
  const checked = await checkMasterConfig(directory);
  if (checked.config.site === null) return checked;
  const { withBundle } = await import('#edge');
  const { config, problems } = await withBundle(checked.config);
  return { ...checked, config, problems: [...checked.problems, ...problems] };
}

function noDirectory(
  directory: string,
  origin: OptionOrigin = { file: directory, line: 0, key: '' },
): ConfigError {
  const problem = `${directory === origin.file ? '' : `${directory}: `}the directory does not exist; give a directory that contains a file named master`;
  return new ConfigError('ERR_CONFIG_READ', origin, problem);
}

/** Adds the errors and warnings about files to which the options or the bridge's catalog refer. */
export async function withNamedFiles(checked: CheckedConfig): Promise<CheckedConfig> {
  const { config, settings, problems, warnings } = checked;
  const bridge = await checkBridgeOptions(config);
  const certificates = await findUnreadableCertificates(config);
  const missing = await findMissingRoots(settings);
  const files = await findMissingFiles(checked);
  const functions = findUnservedFunctions(config);
  return {
    ...checked,
    problems: [
      ...problems,
      ...bridge.map((it) => sectionError(settings, it)),
      ...certificates.map(({ key, problem }) => toConfigError(settings, key, problem)),
    ],
    warnings: [
      ...warnings,
      ...missing,
      ...files.map((it) => toWarning(settings, 'missing-named-file', it)),
      ...functions.map((it) => toWarning(settings, 'unusable', it)),
    ],
  };
}

/**
 * Converts a problem in the options of the bridge to a configuration error. If the problem is in a
 * catalog file, the error names the line in that file.
 */
function sectionError(
  settings: Settings,
  { key, problem, file, line = 0 }: SectionProblem,
): ConfigError {
  if (file !== undefined) {
    return new ConfigError('ERR_OPTION_TYPE', { file, line, key: '' }, problem);
  }
  return toConfigError(settings, keyPath(key), problem);
}

function toConfigError(settings: Settings, path: ValuePath, problem: string): ConfigError {
  return new ConfigError('ERR_OPTION_TYPE', originAt(settings, path), problem);
}

function toWarning(
  settings: Settings,
  kind: ConfigWarning['kind'],
  { key, problem }: ValueProblem,
): ConfigWarning {
  const { file, line, key: name, entry, message } = toConfigError(settings, key, problem);
  return { kind, file, line, key: name, ...(entry === undefined ? {} : { entry }), message };
}

/**
 * Returns the file and line of a key. If no file contains the key, returns the file and line of its
 * nearest parent.
 */
function originAt(settings: Settings, path: ValuePath): OptionOrigin {
  const whole = { value: settings, origin: { file: 'options', line: 0, key: '' } };
  const { file, line } = placeWithin(whole, path);
  const [key = '', ...rest] = path;
  return { ...originOfPath({ file, line, key: String(key) }, rest), file, line };
}
