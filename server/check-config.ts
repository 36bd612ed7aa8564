/** All that is wrong with a configuration directory, as `saltbridge master` would find it. */

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

/** A configuration directory that was looked at; of one with tenants, those of the tenants too. */
export interface ConfigCheck {
  readonly directory: string;
  /** Every file that was read. */
  readonly files: readonly string[];
  /** What keeps the master from starting. */
  readonly problems: readonly ConfigError[];
  /** What has no effect, or another one than in Salt. */
  readonly warnings: readonly ConfigWarning[];
  /** What a master would be started with; where nothing keeps it from starting. */
  readonly loaded: LoadedTenants | undefined;
}

/** Reads a configuration directory and what it names; opens nothing, and changes nothing. */
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

/** Finds what several tenants must not have in common, where each is right by itself. */
async function join(directory: string): Promise<Pick<ConfigCheck, 'loaded' | 'problems'>> {
  try {
    return { problems: [], loaded: await loadTenants(directory) };
  } catch (error) {
    if (error instanceof ConfigError) return { problems: error.problems, loaded: undefined };
    throw error;
  }
}

/** `undefined`: there is none. */
async function checkDirectory(directory: string): Promise<CheckedConfig | undefined> {
  return (await isDirectory(directory)) ? checkMasterConfig(directory) : undefined;
}

function noDirectory(
  directory: string,
  origin: OptionOrigin = { file: directory, line: 0, key: '' },
): ConfigError {
  const problem = `${directory === origin.file ? '' : `${directory}: `}there is no such directory, expected one with a file named master`;
  return new ConfigError('ERR_CONFIG_READ', origin, problem);
}

/** Looks at what the bridge and the options name as well. */
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

/** Of the bridge; what its catalog has is told at its own place. */
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

/** The place of a key, or of the nearest one above it that a file has. */
function originAt(settings: Settings, path: ValuePath): OptionOrigin {
  const whole = { value: settings, origin: { file: 'options', line: 0, key: '' } };
  const { file, line } = placeWithin(whole, path);
  const [key = '', ...rest] = path;
  return { ...originOfPath({ file, line, key: String(key) }, rest), file, line };
}
