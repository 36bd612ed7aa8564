/** Several masters of one process, each with a configuration directory of its own. */

import { realpath } from 'node:fs/promises';
import path from 'node:path';
import { ConfigError } from './config-error.ts';
import { checkMasterConfig, type LoadedConfig } from './load.ts';
import type { MasterConfig } from './options.ts';
import { portsOf, servedTransports } from './served-transports.ts';

// Resources that two masters of a process must not share.

/** A master and what it is called. */
interface Named {
  readonly name: string;
  readonly config: MasterConfig;
}

/** Something that a master takes for itself, as its file calls it. */
interface Claim {
  readonly option: string;
  readonly place: string;
}

/** What is one master's own; what lies within is too. */
const ownPlaces: readonly (readonly [option: string, of: (config: MasterConfig) => string])[] = [
  ['pki_dir', (config) => config.pkiDir],
  ['cachedir', (config) => config.cachedir],
  ['saltbridge: state_dir', (config) => config.stateDir],
  ['saltbridge: socket', (config) => config.socket],
];

/**
 * Of each two of them the first thing that they would share, with both names and files. Links are
 * followed; what does not exist yet is compared as it is written.
 */
async function findSharedBetween(masters: readonly Named[]): Promise<readonly string[]> {
  const claims = await Promise.all(masters.map(claimsOf));
  const problems: string[] = [];
  for (const [index, one] of masters.entries()) {
    for (const [before, other] of masters.slice(0, index).entries()) {
      const [first, second] = [claims[before], claims[index]];
      const shared =
        first && second && (findSharedPlace(first, second) ?? findShownFiles(first, second));
      const problem = shared ?? findSharedPort(other.config, one.config);
      if (problem !== undefined) problems.push(describe(problem, other, one));
    }
  }
  return problems;
}

/** Of the one, and of the other. */
type Shared = readonly [one: string, other: string];

function describe([one, other]: Shared, first: Named, second: Named): string {
  const named = (option: string, { name, config }: Named): string =>
    `${option} of ${name} (${config.confFile})`;
  return `${named(one, first)} and ${named(other, second)} meet; give each its own`;
}

interface Claims {
  readonly places: readonly Claim[];
  readonly shown: readonly Claim[];
}

async function claimsOf({ config }: Named): Promise<Claims> {
  const places = ownPlaces.map(async ([option, of]) => ({
    option,
    place: await trueName(of(config)),
  }));
  const roots = Object.values(config.fileRoots).flat();
  const shown = roots.map(async (root) => ({ option: 'file_roots', place: await trueName(root) }));
  return { places: await Promise.all(places), shown: await Promise.all(shown) };
}

function findSharedPlace(first: Claims, second: Claims): Shared | undefined {
  return findPair(first.places, second.places, (a, b) => contains(a, b) || contains(b, a));
}

/** What the one serves to its minions must not be what the other keeps for itself. */
function findShownFiles(first: Claims, second: Claims): Shared | undefined {
  return (
    findPair(first.shown, second.places, contains) ??
    findPair(first.places, second.shown, (place, root) => contains(root, place))
  );
}

function findPair(
  some: readonly Claim[],
  others: readonly Claim[],
  meet: (a: string, b: string) => boolean,
): Shared | undefined {
  for (const one of some) {
    const other = others.find(({ place }) => meet(one.place, place));
    if (other !== undefined) return [one.option, other.option];
  }
  return undefined;
}

function contains(folder: string, place: string): boolean {
  return place === folder || place.startsWith(folder.endsWith('/') ? folder : `${folder}/`);
}

async function trueName(place: string): Promise<string> {
  const whole = path.resolve(place);
  try {
    return await realpath(whole);
  } catch {
    const parent = path.dirname(whole);
    return parent === whole ? whole : path.join(await trueName(parent), path.basename(whole));
  }
}

function findSharedPort(first: MasterConfig, second: MasterConfig): Shared | undefined {
  for (const one of allPortsOf(first)) {
    const other = allPortsOf(second).find(
      (it) => it.port === one.port && isSameHost(it.host, one.host),
    );
    if (other !== undefined) return [one.option, other.option];
  }
  return undefined;
}

function allPortsOf(config: MasterConfig): ReturnType<typeof portsOf> {
  return servedTransports(config).flatMap(portsOf);
}

const everywhere: ReadonlySet<string> = new Set(['0.0.0.0', '::']);

function isSameHost(a: string, b: string): boolean {
  return a === b || everywhere.has(a) || everywhere.has(b);
}

/** A tenant: a master beside others, with nothing in common with them. */
interface Tenant extends SaltConfig {
  readonly name: string;
}

/** A configuration directory that was read. */
export interface SaltConfig extends LoadedConfig {
  readonly directory: string;
  /** The masters whose directories it names (`saltbridge: tenants`). Absent: it is one master's. */
  readonly tenants?: readonly (SaltConfig & { readonly name: string })[];
}

/**
 * Reads Salt's master configuration from a directory such as `/etc/salt`, and those of the tenants
 * that it names. Options that have no effect are `warnings`.
 * @throws ConfigError, see docs/errors.md
 */
export async function loadSaltConfig(directory: string): Promise<SaltConfig> {
  const { tenants, ...loaded } = await loadTenants(directory);
  return { ...loaded, directory, ...(tenants.length === 0 ? {} : { tenants }) };
}

export interface LoadedTenants extends LoadedConfig {
  /** Empty where the directory is that of one master. */
  readonly tenants: readonly Tenant[];
}

/**
 * Reads a configuration directory, and those of the tenants that it names under `saltbridge:`,
 * all or nothing.
 * @throws ConfigError, see `configErrors`; ERR_OPTION_CONFLICT where two tenants share what each
 * must have for itself
 */
export async function loadTenants(directory: string): Promise<LoadedTenants> {
  const main = await checkMasterConfig(directory);
  const mistakes = [...main.problems];
  const tenants: Tenant[] = [];
  for (const [name, given] of Object.entries(main.config.tenants)) {
    const own = path.resolve(directory, given);
    const { config, warnings, files, problems } = await checkMasterConfig(own);
    tenants.push({ name, directory: own, config, warnings, files });
    mistakes.push(...problems);
  }
  const mistake = ConfigError.of(mistakes) ?? ConfigError.of(await conflictsBetween(main, tenants));
  if (mistake !== undefined) throw mistake;
  const { config, warnings, files } = main;
  return { config, warnings, files, tenants };
}

/** What is the process's and not a tenant's, and what tenants would share. */
async function conflictsBetween(
  { config }: LoadedConfig,
  tenants: readonly Tenant[],
): Promise<readonly ConfigError[]> {
  const unfit = tenants.flatMap(({ name, config: own }) => {
    const whose = `${name} (${own.confFile})`;
    const isOther = own.user !== null && own.user !== config.user;
    return [
      ...(Object.keys(own.tenants).length > 0 ? [`${whose} has tenants itself`] : []),
      ...(isOther
        ? [`user of ${whose} is another one than the process's (${config.confFile})`]
        : []),
    ];
  });
  const origin = { file: config.confFile, line: 0, key: 'saltbridge:tenants' };
  return [...unfit, ...(await findSharedBetween(tenants))].map(
    (problem) => new ConfigError('ERR_OPTION_CONFLICT', origin, problem),
  );
}
