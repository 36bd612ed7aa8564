/** Detection of resources that two masters in one process must not share. */

import { realpath } from 'node:fs/promises';
import path from 'node:path';
import type { MasterConfig } from './options.ts';
import { portsOf, servedTransports } from './served-transports.ts';

/** Configuration of a master, with its name. */
interface Named {
  readonly name: string;
  readonly config: MasterConfig;
}

/** Resource that only one master may use, and the name of its option. */
interface Claim {
  readonly option: string;
  readonly place: string;
}

/** Paths that only one master may use. All files below them also belong to this master only. */
const ownPlaces: readonly (readonly [option: string, of: (config: MasterConfig) => string])[] = [
  ['pki_dir', (config) => config.pkiDir],
  ['cachedir', (config) => config.cachedir],
  ['saltbridge: state_dir', (config) => config.stateDir],
  ['saltbridge: socket', (config) => config.socket],
];

/**
 * Returns a message for each pair of masters that would use the same resource. The message names
 * the first such resource, the masters and their files. Symbolic links are resolved; paths that do
 * not exist yet are compared as written.
 */
export async function findSharedBetween(masters: readonly Named[]): Promise<readonly string[]> {
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

/** Names of the two options, one of each master, that refer to the same resource. */
type Shared = readonly [one: string, other: string];

function describe([one, other]: Shared, first: Named, second: Named): string {
  const named = (option: string, { name, config }: Named): string =>
    `${option} of ${name} (${config.confFile})`;
  return `${named(one, first)} and ${named(other, second)} overlap; set different values`;
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

/**
 * Finds a directory that one master serves to its minions although it contains private data of the
 * other master. Returns the options of both masters, or `undefined` if there is no such directory.
 */
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
