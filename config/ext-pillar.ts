/** Salt's option `ext_pillar`: sources of pillar besides the files. */

import type { Static } from 'typebox';
import {
  ConfigError,
  type ConfigWarning,
  type OptionOrigin,
  placeOf,
  typeError,
} from './config-error.ts';
import { extPillarAdvice } from './ext-pillar-advice.ts';
import { type GitRemote, gitPillarRemotes, remotesIn } from './git-options.ts';
import {
  absolutePath,
  bytes,
  custom,
  flag,
  headers,
  number,
  oneOf,
  optional,
  parseValue,
  refusals,
  section,
  text,
  textList,
} from './schema.ts';
import {
  entriesOf,
  itemsOf,
  placeWithin,
  type Setting,
  type Settings,
  settingsOf,
  toPlain,
} from './settings.ts';

/** Address of a pillar service, which contains `{id}`, and the conditions for requests to it. */
export interface PillarAddress {
  readonly url: string;
  readonly hosts: readonly string[];
  readonly allowsPlainHttp?: boolean;
}

/** Returns the reason why the master must not request an address, or `undefined` if it may. */
export function pillarAddressProblem({
  url,
  hosts,
  allowsPlainHttp = false,
}: PillarAddress): string | undefined {
  const address = tryUrl(url.replaceAll('{id}', 'id'));
  // The id of a minion must not determine the host.
  if (address === undefined || address.host !== tryUrl(url.replaceAll('{id}', 'other'))?.host) {
    return 'expected an address with {id} after the host';
  }
  if (address.protocol !== 'https:' && !(allowsPlainHttp && address.protocol === 'http:')) {
    return 'expected an https address; http requires allow_plain_http';
  }
  if (address.username !== '' || address.password !== '') {
    return 'user and password are not accepted in an address: send them in headers';
  }
  return hosts.includes(address.host) ? undefined : 'the host is not listed under hosts';
}

function tryUrl(text: string): URL | undefined {
  return URL.canParse(text) ? new URL(text) : undefined;
}

const size = bytes(1, 100_000_000);

/** `minion_files`: a directory with one file per minion. */
const filesSection = section(
  {
    /** Absolute path of a directory that contains `<id>.json`, `<id>.yaml` or `<id>.yml`. */
    directory: absolutePath(),
    /** Maximum size of a file, in bytes. Default: 4 MiB. */
    maxBytes: optional(size),
  },
  { expected: 'a map' },
);

/** `minion_http`: a service that returns the pillar of a minion. */
const httpSection = section(
  {
    /** Address with `{id}`, the minion's id, after the host. */
    url: text(),
    /** Hosts that may be requested, including the port if the address has one. */
    hosts: textList(),
    /** Format of the response. Default: `json`. */
    format: optional(oneOf(['json', 'yaml'])),
    /** Headers of each request. Their values are secret. Default: none. */
    headers: optional(headers()),
    /** Time limit for the complete response, in seconds. Default: 10. */
    timeout: optional(number(0.1, 300)),
    /** Maximum size of a response, in bytes. Default: 4 MiB. */
    maxBytes: optional(size),
    /** Whether `http:` addresses are accepted. Default: false. */
    allowPlainHttp: optional(flag()),
  },
  { expected: 'a map' },
);

type MinionFilesEntry = { readonly module: 'minion_files' } & Static<typeof filesSection>;
type MinionHttpEntry = { readonly module: 'minion_http' } & Static<typeof httpSection>;

/** `git`: pillar files in repositories. */
export interface GitPillarEntry {
  readonly module: 'git';
  /** Remotes. A remote without a branch uses `git_pillar_branch`. */
  readonly remotes: readonly GitRemote[];
}

/** Unsupported module in a configuration file. Minions get an error instead of its data. */
export interface UnservedPillarEntry {
  readonly module: 'unserved';
  /** Name of the module in the file. */
  readonly name: string;
}

/** One source of `ext_pillar`. */
export type ExtPillarEntry =
  | GitPillarEntry
  | MinionFilesEntry
  | MinionHttpEntry
  | UnservedPillarEntry;

/** Names of the supported modules. */
const extPillarModules: readonly string[] = ['git', 'minion_files', 'minion_http'];

/**
 * Schema of `ext_pillar`: a list of maps from modules to their options, as in Salt. In a file, an
 * unsupported module becomes an {@link UnservedPillarEntry} and causes a warning. If a program
 * passes an unsupported module, the schema rejects it.
 */
export const extPillarEntries = custom<readonly ExtPillarEntry[]>(
  {
    expected:
      'a list of maps: git with a list of remotes, minion_files with directory (absolute) and max_bytes, minion_http with url, ' +
      'hosts, format (json or yaml), headers, timeout, max_bytes and allow_plain_http',
    accept: (value) => {
      const list = toPlain(value);
      if (!Array.isArray(list)) return undefined;
      const read = list.flatMap(readExtPillar);
      const entries = read.filter((entry) => entry !== undefined);
      return entries.length === read.length ? entries : undefined;
    },
    explain: (setting) => itemsOf(setting).flatMap(explainItem),
  },
  { type: 'array', items: { type: 'object' } },
);

/** Returns all problems of an item, each with its own location. */
function explainItem(item: Setting): readonly ConfigError[] {
  if (!readExtPillar(toPlain(item.value)).includes(undefined)) return [];
  const modules = settingsOf(item).filter(([name]) => extPillarModules.includes(name));
  const problems = modules.flatMap(([name, options]) => explainModule(name, options));
  if (problems.length > 0) return problems;
  return [
    typeError(
      item.origin,
      item.value,
      'a map with one key: the name of a module, with the options of the module as its value',
    ),
  ];
}

function explainModule(name: string, options: Setting): readonly ConfigError[] {
  if (name === 'git') return refusals(gitPillarRemotes, options);
  if (name === 'minion_http') return refusals(httpSection, options);
  const isDirectory = typeof options.value === 'string';
  return refusals(isDirectory ? absolutePath() : filesSection, options);
}

/** Returns the locations of the remotes of all `git` entries, in order. */
export function pillarRemotesIn(settings: Settings): readonly OptionOrigin[] {
  const setting = settings.get('ext_pillar');
  const items = setting === undefined ? [] : itemsOf(setting);
  return items.flatMap((item) =>
    settingsOf(item)
      .filter(([name]) => name === 'git' || name === 'remotes')
      .flatMap(([, remotes]) => remotesIn(remotes).map(({ origin }) => origin)),
  );
}

/** Returns an error for each address that the master must not request. */
export function extPillarProblems(settings: Settings): readonly ConfigError[] {
  const setting = settings.get('ext_pillar');
  const items = setting === undefined ? [] : itemsOf(setting);
  return items.flatMap((item) =>
    readExtPillar(toPlain(item.value)).flatMap((entry) => {
      if (entry?.module !== 'minion_http') return [];
      const { url, hosts, allowPlainHttp: allowsPlainHttp = false } = entry;
      const problem = pillarAddressProblem({ url, hosts, allowsPlainHttp });
      if (problem === undefined) return [];
      const origin = placeWithin(item, ['minion_http', 'url']);
      return [new ConfigError('ERR_OPTION_TYPE', origin, problem)];
    }),
  );
}

/**
 * Reads one item of `ext_pillar`, from a program or a file: a map with a module name as each key and
 * the options of this module as the value. The result has an entry for each module of the item, and
 * `undefined` in place of each invalid one.
 */
export function readExtPillar(item: unknown): (ExtPillarEntry | undefined)[] {
  const pairs = entriesOf(item);
  if (pairs === undefined || pairs.length === 0) return [undefined];
  const module = new Map(pairs).get('module');
  if (typeof module === 'string') {
    const options = Object.fromEntries(pairs.filter(([name]) => name !== 'module'));
    if (module === 'git') return [readGit(new Map(pairs).get('remotes'))];
    if (module === 'unserved') return [readUnserved(options.name)];
    return [readEntry(module, options)];
  }
  return pairs.map(([name, options]) => {
    if (!extPillarModules.includes(name)) return { module: 'unserved', name };
    return name === 'git' ? readGit(options) : readEntry(name, asSettings(options));
  });
}

function readUnserved(name: unknown): UnservedPillarEntry | undefined {
  return typeof name === 'string' ? { module: 'unserved', name } : undefined;
}

function readGit(value: unknown): GitPillarEntry | undefined {
  const remotes = parseValue(gitPillarRemotes, value);
  return remotes && { module: 'git', remotes };
}

function readEntry(module: string, options: unknown): ExtPillarEntry | undefined {
  if (module === 'minion_files') {
    const read = parseValue(filesSection, options);
    return read && { module, ...read };
  }
  const read = module === 'minion_http' ? parseValue(httpSection, options) : undefined;
  return read && { module: 'minion_http', ...read };
}

/**
 * Converts the options of a module to settings. As in Salt, a text means the map
 * `{directory: <text>}`.
 */
function asSettings(options: unknown): unknown {
  const pairs: readonly (readonly [string, unknown])[] | undefined =
    typeof options === 'string' ? [['directory', options]] : entriesOf(options);
  const origin = { file: 'options', line: 0, key: 'ext_pillar' };
  return pairs && new Map(pairs.map(([name, value]) => [name, { value, origin }]));
}

/** Returns the unsupported modules of an `ext_pillar` option without duplicates. */
export function unservedExtPillars(value: unknown): readonly string[] {
  const names = [value].flat().flatMap((item) => (entriesOf(item) ?? []).map(([name]) => name));
  return [...new Set(names)].filter((name) => !extPillarModules.includes(name));
}

/** Returns a warning for each unsupported module. */
export function warnOfExtPillar(settings: Settings): ConfigWarning[] {
  const setting = settings.get('ext_pillar');
  if (setting === undefined) return [];
  return unservedExtPillars(setting.value).map((name) => ({
    kind: 'not-served',
    ...setting.origin,
    message: `${placeOf(setting.origin)}: ext_pillar: ${name} ${unservedReason(name)}`,
  }));
}

/** Returns the reason why a module of `ext_pillar` is not supported, with an alternative. */
export function unservedReason(name: string): string {
  const advice = extPillarAdvice.get(name);
  return advice === undefined
    ? `is unknown: the supported modules are ${extPillarModules.join(', ')}`
    : `is not supported: ${advice}`;
}
