/** Parses one group of an `install:` definition. */

import type { ContentBudget } from './content-budget.ts';
import { fileBytes, modeOf } from './file-content.ts';
import {
  archiveFormatOf,
  commandOf,
  isTrue,
  requireAccount,
  requireEnvironment,
  requireId,
  requireKnownKeys,
  requireLinkTarget,
  requireMap,
  requireOwner,
  requirePackage,
  requirePath,
  requireService,
  requireText,
  requireTexts,
  requireUrl,
  requireVersion,
  shown,
} from './forms.ts';
import {
  type Archive,
  type Command,
  type Config,
  type ConfigFile,
  configError,
  type Package,
  type PackageManager,
  type PackageSet,
  type Service,
  type User,
} from './state-config.ts';

export type JsonMap = Readonly<Record<string, unknown>>;

const sections = [
  'name',
  'packages',
  'groups',
  'users',
  'tarballs',
  'files',
  'scripts',
  'services',
];

export function parseGroup(group: JsonMap, budget: ContentBudget): Config {
  const name = requireText(group.name, 'a group: name');
  const place = `group ${name}`;
  requireKnownKeys(group, sections, place);
  const list = <T>(section: string, parse: (value: JsonMap, at: string) => T): readonly T[] => {
    const at = `${place}: ${section}`;
    const given = group[section] ?? [];
    if (!Array.isArray(given)) throw configError(at, 'must be a list');
    return given.map((it, index) =>
      parse(requireMap(it, `${at} ${index + 1}`), `${at} ${index + 1}`),
    );
  };
  return {
    name,
    packages: parsePackages(group.packages ?? [], `${place}: packages`),
    groups: list('groups', (it, at) => {
      requireKnownKeys(it, ['name', 'gid'], at);
      const gid = it.gid === undefined ? {} : { gid: requireId(it.gid, `${at}: gid`) };
      return { name: requireAccount(requireText(it.name, at), at), ...gid };
    }),
    users: list('users', parseUser),
    archives: list('tarballs', parseTarball),
    files: list('files', (it, at) => parseFile(it, at, budget)),
    commands: list('scripts', parseScript),
    services: list('services', parseService),
  };
}

const managers: readonly PackageManager[] = ['rpm', 'native', 'rubygems', 'python'];

function parsePackages(given: unknown, place: string): readonly PackageSet[] {
  if (!Array.isArray(given)) throw configError(place, 'must be a list');
  const all = given.map((it): Package & { readonly manager: PackageManager } => {
    if (typeof it === 'string') return { name: requirePackage(it, place), manager: 'native' };
    const { name, version, manager: asked = 'native', ...rest } = requireMap(it, place);
    requireKnownKeys(rest, ['name', 'version', 'manager'], place);
    const manager = managers.find((one) => one === asked);
    if (manager === undefined)
      throw configError(place, `unknown package manager; use one of ${managers.join(', ')}`);
    const wanted =
      manager === 'rpm' || version !== undefined
        ? { version: versionOf(manager, version, place) }
        : {};
    return { name: requirePackage(requireText(name, place), place), manager, ...wanted };
  });
  return managers.flatMap((manager) => {
    const packages = all.filter((it) => it.manager === manager);
    return packages.length === 0 ? [] : [{ manager, packages }];
  });
}

function versionOf(manager: PackageManager, version: unknown, place: string): string {
  if (manager === 'rpm') return requireUrl(version, place);
  return requireVersion(requireText(version, place), place);
}

function parseUser(user: JsonMap, place: string): User {
  requireKnownKeys(user, ['name', 'uid', 'groups', 'home'], place);
  const { name, uid, groups, home } = user;
  return {
    name: requireAccount(requireText(name, place), place),
    groups: requireTexts(groups, `${place}: groups`).map((it) => requireAccount(it, place)),
    ...(uid === undefined ? {} : { uid: requireId(uid, `${place}: uid`) }),
    ...(home === undefined ? {} : { home: requirePath(home, `${place}: home`) }),
  };
}

function parseTarball(tarball: JsonMap, place: string): Archive {
  requireKnownKeys(tarball, ['directory', 'url', 'format', 'sha256'], place);
  const { sha256 } = tarball;
  const url = requireUrl(tarball.url, `${place}: url`);
  const format = tarball.format ?? archiveFormatOf(url);
  if (format !== 'tar' && format !== 'zip')
    throw configError(`${place}: format`, 'must be tar or zip');
  if (sha256 !== undefined && !/^[0-9a-f]{64}$/.test(String(sha256))) {
    throw configError(`${place}: sha256`, 'must be 64 hexadecimal digits');
  }
  return {
    directory: requirePath(tarball.directory, `${place}: directory`),
    url,
    format,
    ...(sha256 === undefined ? {} : { sha256: String(sha256) }),
  };
}

const fileKeys = [
  ...['path', 'content', 'encoding', 'variables', 'url', 'link'],
  ...['mode', 'owner', 'group', 'selinux'],
];

function parseFile(file: JsonMap, place: string, budget: ContentBudget): ConfigFile {
  requireKnownKeys(file, fileKeys, place);
  const { path, mode, owner, group, selinux } = file;
  return {
    path: requirePath(path, `${place}: path`),
    content: contentOf(file, place, budget),
    ...(mode === undefined ? {} : { mode: modeOf(mode, `${place}: mode`).digits }),
    ...(owner === undefined ? {} : { owner: requireOwner(owner, `${place}: owner`) }),
    ...(group === undefined ? {} : { group: requireOwner(group, `${place}: group`) }),
    ...(selinux === undefined ? {} : { selinux: selinuxOf(selinux, `${place}: selinux`) }),
  };
}

function contentOf(file: JsonMap, place: string, budget: ContentBudget): ConfigFile['content'] {
  const { content, encoding = 'plain', variables: context, url, link } = file;
  if (url !== undefined && content === undefined && link === undefined) {
    return { kind: 'url', url: requireUrl(url, `${place}: url`) };
  }
  if (link !== undefined && content === undefined && url === undefined) {
    return { kind: 'link', target: requireLinkTarget(requireText(link, place), place) };
  }
  if (content === undefined || url !== undefined || link !== undefined) {
    throw configError(
      place,
      'a file must have exactly one of the fields `content`, `url` and `link`',
    );
  }
  const bytes = fileBytes({ content, encoding, context, escapesHtml: false }, place, budget);
  return { kind: 'bytes', bytes };
}

/** Keyword arguments of `file.managed`, by the field of an SELinux context. */
const selinuxFields: Readonly<Record<string, string>> = {
  user: 'seuser',
  role: 'serole',
  type: 'setype',
  range: 'serange',
};

function selinuxOf(given: unknown, place: string): Readonly<Record<string, string>> {
  const map = requireMap(given, place);
  requireKnownKeys(map, Object.keys(selinuxFields), place);
  const entries = Object.entries(map).map(([key, value]) => {
    const text = requireText(value, `${place}: ${key}`);
    if (/^[A-Za-z0-9_.:,-]{1,255}$/.test(text)) return [selinuxFields[key], text];
    throw configError(
      `${place}: ${key}`,
      'must be the user, role, type or range of an SELinux context',
    );
  });
  return Object.fromEntries(entries);
}

const scriptKeys = ['name', 'command', 'test', 'env', 'cwd', 'ignore_errors'];

function parseScript(script: JsonMap, place: string): Command {
  requireKnownKeys(script, scriptKeys, place);
  const { name, command, test, env, cwd } = script;
  const words = Array.isArray(command) ? command.map(wordOf) : command;
  return {
    name: requireText(name, `${place}: name`),
    command: commandOf(words, `${place}: command`),
    ignoreErrors: isTrue(script.ignore_errors),
    ...(env === undefined ? {} : { env: requireEnvironment(env, `${place}: env`) }),
    ...(cwd === undefined ? {} : { cwd: requirePath(cwd, `${place}: cwd`) }),
    ...(test === undefined ? {} : { test: requireText(test, `${place}: test`) }),
  };
}

/**
 * Returns an argument of a program. Converts numbers and booleans to text, and returns other values
 * unchanged.
 */
function wordOf(value: unknown): unknown {
  return ['bigint', 'boolean', 'number'].includes(typeof value) ? String(value) : value;
}

function parseService(service: JsonMap, place: string): Service {
  requireKnownKeys(service, ['name', 'enabled', 'running', 'restart_on'], place);
  const { enabled, running } = service;
  const at = `${place}: restart_on`;
  const restart = requireMap(service.restart_on ?? {}, at);
  requireKnownKeys(restart, ['files', 'packages', 'tarballs', 'scripts'], at);
  const names = requireTexts(restart.packages, at);
  for (const [key, value] of Object.entries({ enabled, running })) {
    if (value !== undefined && typeof value !== 'boolean') {
      throw configError(`${place}: ${shown(key)}`, 'must be true or false');
    }
  }
  return {
    name: requireService(requireText(service.name, place), place),
    ...(enabled === undefined ? {} : { enabled: enabled === true }),
    ...(running === undefined ? {} : { running: running === true }),
    restartOn: {
      files: requireTexts(restart.files, at),
      archives: requireTexts(restart.tarballs, at),
      commands: requireTexts(restart.scripts, at),
      packages: managers.map((manager) => ({ manager, names })),
    },
  };
}
