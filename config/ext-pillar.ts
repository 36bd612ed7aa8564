/** Salt's option `ext_pillar`: sources of pillar beside the files. */

import type { Static } from 'typebox';
import { extPillarAdvice } from './advice.ts';
import {
  ConfigError,
  type ConfigWarning,
  type OptionOrigin,
  placeOf,
  typeError,
} from './config-error.ts';
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

/** An address with `{id}` in it, and what may be asked. */
export interface PillarAddress {
  readonly url: string;
  readonly hosts: readonly string[];
  readonly allowsPlainHttp?: boolean;
}

/** Returns why an address may not be requested; `undefined` if it may. */
export function pillarAddressProblem({
  url,
  hosts,
  allowsPlainHttp = false,
}: PillarAddress): string | undefined {
  const address = tryUrl(url.replaceAll('{id}', 'id'));
  // An id must not choose the host.
  if (address === undefined || address.host !== tryUrl(url.replaceAll('{id}', 'other'))?.host) {
    return 'expected an address with {id} behind the host';
  }
  if (address.protocol !== 'https:' && !(allowsPlainHttp && address.protocol === 'http:')) {
    return 'expected https (or http, where that is allowed)';
  }
  if (address.username !== '' || address.password !== '') {
    return 'user and password go into headers';
  }
  return hosts.includes(address.host) ? undefined : 'its host is not among hosts';
}

function tryUrl(text: string): URL | undefined {
  return URL.canParse(text) ? new URL(text) : undefined;
}

const size = bytes(1, 100_000_000);

/** `minion_files`: a directory with a file for each minion. */
const filesSection = section(
  {
    /** Absolute. In it `<id>.json`, `<id>.yaml` or `<id>.yml`. */
    directory: absolutePath(),
    /** Size of a file. Default 4 MiB. */
    maxBytes: optional(size),
  },
  { expected: 'a map' },
);

/** `minion_http`: a service that answers with the pillar of a minion. */
const httpSection = section(
  {
    /** With `{id}` in place of the minion's id, behind the host. */
    url: text(),
    /** Hosts that may be requested, with the port if the address names it. */
    hosts: textList(),
    /** Default `json`. */
    format: optional(oneOf(['json', 'yaml'])),
    /** Sent with each request. Default: none. Secret. */
    headers: optional(headers()),
    /** Seconds for the whole answer. Default 10. */
    timeout: optional(number(0.1, 300)),
    /** Size of an answer. Default 4 MiB. */
    maxBytes: optional(size),
    /** Whether `http:` is accepted. Default false. */
    allowPlainHttp: optional(flag()),
  },
  { expected: 'a map' },
);

type MinionFilesEntry = { readonly module: 'minion_files' } & Static<typeof filesSection>;
type MinionHttpEntry = { readonly module: 'minion_http' } & Static<typeof httpSection>;

/** `git`: pillar files of repositories. */
export interface GitPillarEntry {
  readonly module: 'git';
  /** Each with its branch in front, or with that of `git_pillar_branch`. */
  readonly remotes: readonly GitRemote[];
}

/** A module of a configuration file that is not served: minions get an error in its place. */
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

/** The modules that an entry may name. */
const extPillarModules: readonly string[] = ['git', 'minion_files', 'minion_http'];

/**
 * As in Salt a list of maps, from modules to their options. Modules that are not served become
 * entries of their own in files, where a warning names them; a program is refused.
 */
export const extPillarEntries = custom<readonly ExtPillarEntry[]>(
  {
    expected:
      'a list of maps: git with a list of remotes, minion_files with directory (absolute) and max_bytes, minion_http with url, ' +
      'hosts, format (json or yaml), headers, timeout, max_bytes and allow_plain_http',
    accept: (value) => {
      const list = toPlain(value);
      if (!Array.isArray(list)) return undefined;
      const read = list.flatMap(readItem);
      const entries = read.filter((entry) => entry !== undefined);
      return entries.length === read.length ? entries : undefined;
    },
    explain: (setting) => itemsOf(setting).flatMap(explainItem),
  },
  { type: 'array', items: { type: 'object' } },
);

/** All that is wrong with an item, each by its own place. */
function explainItem(item: Setting): readonly ConfigError[] {
  if (!readItem(toPlain(item.value)).includes(undefined)) return [];
  const modules = settingsOf(item).filter(([name]) => extPillarModules.includes(name));
  const problems = modules.flatMap(([name, options]) => explainModule(name, options));
  if (problems.length > 0) return problems;
  return [typeError(item.origin, item.value, 'a map of a module to its options')];
}

function explainModule(name: string, options: Setting): readonly ConfigError[] {
  if (name === 'git') return refusals(gitPillarRemotes, options);
  if (name === 'minion_http') return refusals(httpSection, options);
  const isDirectory = typeof options.value === 'string';
  return refusals(isDirectory ? absolutePath() : filesSection, options);
}

/** The places of the remotes of all entries `git`, in their order. */
export function pillarRemotesIn(settings: Settings): readonly OptionOrigin[] {
  const setting = settings.get('ext_pillar');
  const items = setting === undefined ? [] : itemsOf(setting);
  return items.flatMap((item) =>
    settingsOf(item)
      .filter(([name]) => name === 'git' || name === 'remotes')
      .flatMap(([, remotes]) => remotesIn(remotes).map(({ origin }) => origin)),
  );
}

/** The addresses that may not be asked. */
export function extPillarProblems(settings: Settings): readonly ConfigError[] {
  const setting = settings.get('ext_pillar');
  const items = setting === undefined ? [] : itemsOf(setting);
  return items.flatMap((item) =>
    readItem(toPlain(item.value)).flatMap((entry) => {
      if (entry?.module !== 'minion_http') return [];
      const { url, hosts, allowPlainHttp: allowsPlainHttp = false } = entry;
      const problem = pillarAddressProblem({ url, hosts, allowsPlainHttp });
      if (problem === undefined) return [];
      const origin = placeWithin(item, ['minion_http', 'url']);
      return [new ConfigError('ERR_OPTION_TYPE', origin, problem)];
    }),
  );
}

/** From a program, or from a file; `undefined` for what cannot be read. */
function readItem(item: unknown): (ExtPillarEntry | undefined)[] {
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

/** A text alone is the directory, as modules of Salt's take a text. */
function asSettings(options: unknown): unknown {
  const pairs: readonly (readonly [string, unknown])[] | undefined =
    typeof options === 'string' ? [['directory', options]] : entriesOf(options);
  const origin = { file: 'options', line: 0, key: 'ext_pillar' };
  return pairs && new Map(pairs.map(([name, value]) => [name, { value, origin }]));
}

/** The modules of an option `ext_pillar` that are not served, each once. */
export function unservedExtPillars(value: unknown): readonly string[] {
  const names = [value].flat().flatMap((item) => (entriesOf(item) ?? []).map(([name]) => name));
  return [...new Set(names)].filter((name) => !extPillarModules.includes(name));
}

/** One warning for each module that is not served. */
export function warnOfExtPillar(settings: Settings): ConfigWarning[] {
  const setting = settings.get('ext_pillar');
  if (setting === undefined) return [];
  return unservedExtPillars(setting.value).map((name) => ({
    kind: 'not-served',
    ...setting.origin,
    message: `${placeOf(setting.origin)}: ext_pillar: ${name} ${unservedReason(name)}`,
  }));
}

/** Why a module of `ext_pillar` is not served, and what to use instead. */
export function unservedReason(name: string): string {
  const advice = extPillarAdvice(name);
  return advice === undefined
    ? `is none of the modules that are served, which are ${extPillarModules.join(', ')}`
    : `is not served: ${advice}`;
}
