/**
 * Parses `AWS::CloudFormation::Init` as AWS's guide defines it. docs/cfn-init.md lists the
 * differences from heat-cfntools.
 */

import { states } from '#heat-bridge';
import { initKey, selectConfigs } from './config-sets.ts';

const {
  archiveFormatOf,
  commandOf,
  configError,
  ContentBudget,
  fileBytes,
  isTrue,
  modeOf,
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
} = states;

type JsonMap = Readonly<Record<string, unknown>>;

const sections = ['packages', 'groups', 'users', 'sources', 'files', 'commands', 'services'];

/**
 * Returns the configs to apply, in order.
 * @param asked - names of config sets; default: the set `default`, or the config `config` if there
 * are no sets
 * @throws BridgeError ERR_CFN_INIT
 */
export function parseInitMetadata(
  given: unknown,
  asked: readonly string[] | undefined,
): readonly states.Config[] {
  const init = requireMap(given, initKey);
  if (Object.keys(init).length === 0) throw configError(initKey, 'must not be empty');
  const budget = new ContentBudget();
  const configs = new Map<string, states.Config>();
  return selectConfigs(init, asked).map((name) => {
    if (name === 'configSets' || !Object.hasOwn(init, name)) {
      throw configError(
        initKey,
        `a config set selects the config ${shown(name)}, which does not exist`,
      );
    }
    const config = configs.get(name) ?? parseConfig(name, init[name], budget);
    configs.set(name, config);
    return config;
  });
}

function parseConfig(name: string, given: unknown, budget: states.ContentBudget): states.Config {
  const place = `config ${name}`;
  const config = requireMap(given, place);
  requireKnownKeys(config, sections, place);
  const section = (key: string): JsonMap => requireMap(config[key] ?? {}, `${place}: ${key}`);
  const groups = Object.entries(section('groups')).map(([group, value]) => {
    const at = `${place}: groups: ${group}`;
    const { gid, ...rest } = requireMap(value ?? {}, at);
    requireKnownKeys(rest, ['gid'], at);
    const id = gid === undefined ? {} : { gid: requireId(gid, `${at}: gid`) };
    return { name: requireAccount(group, at), ...id };
  });
  return {
    name,
    packages: parsePackages(section('packages'), `${place}: packages`),
    groups,
    users: Object.entries(section('users')).map(([user, value]) =>
      parseUser(user, value, `${place}: users: ${user}`),
    ),
    archives: Object.entries(section('sources')).map(([directory, url]) =>
      parseArchive(directory, url, `${place}: sources: ${directory}`),
    ),
    files: sortedEntries(section('files')).map(([path, value]) =>
      parseFile(path, value, `${place}: files: ${path}`, budget),
    ),
    commands: sortedEntries(section('commands')).map(([command, value]) =>
      parseCommand(command, value, `${place}: commands: ${command}`),
    ),
    services: Object.entries(section('services')).flatMap(([manager, value]) =>
      parseServices(manager, value, `${place}: services`),
    ),
  };
}

/** Returns entries sorted by code point, independent of the locale. */
function sortedEntries(map: JsonMap): readonly (readonly [string, unknown])[] {
  return Object.entries(map).sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}

/** Package managers, in the order in which their packages are installed. */
const managers: readonly states.PackageManager[] = [
  'rpm',
  'yum',
  'apt',
  'zypper',
  'dnf',
  'rubygems',
  'python',
];

function parsePackages(section: JsonMap, place: string): readonly states.PackageSet[] {
  const unknown = Object.keys(section).find((it) => !managers.some((one) => one === it));
  if (unknown !== undefined) {
    throw configError(
      place,
      `the package manager ${shown(unknown)} is not supported; use one of ${managers.join(', ')}`,
    );
  }
  return managers.flatMap((manager) => {
    const at = `${place}: ${manager}`;
    const entries = Object.entries(requireMap(section[manager] ?? {}, at));
    const packages = entries.flatMap(([name, versions]) =>
      parsePackage(manager, name, versions, `${at}: ${name}`),
    );
    return packages.length === 0 ? [] : [{ manager, packages }];
  });
}

function parsePackage(
  manager: states.PackageManager,
  given: string,
  versions: unknown,
  place: string,
): readonly states.Package[] {
  const name = requirePackage(given, place);
  if (manager === 'rpm') return [{ name, version: requireUrl(oneOf(versions, place), place) }];
  const list = Array.isArray(versions) ? versions : [versions];
  const wanted = list.filter((it) => it !== '' && it !== null && it !== undefined);
  if (wanted.length === 0) return [{ name }];
  // Several versions of a gem can be installed side by side. Other packages have one version.
  if (wanted.length > 1 && manager !== 'rubygems') {
    throw configError(
      place,
      'several versions of a package are given; give only the version to install',
    );
  }
  return wanted.map((it) => ({ name, version: requireVersion(requireText(it, place), place) }));
}

function oneOf(versions: unknown, place: string): unknown {
  if (!Array.isArray(versions)) return versions;
  if (versions.length === 1) return versions[0];
  throw configError(place, 'must be one URL');
}

function parseUser(given: string, value: unknown, place: string): states.User {
  const user = requireMap(value ?? {}, place);
  requireKnownKeys(user, ['uid', 'groups', 'homeDir'], place);
  const { uid, groups, homeDir } = user;
  return {
    name: requireAccount(given, place),
    groups: requireTexts(groups, `${place}: groups`).map((it) =>
      requireAccount(it, `${place}: groups`),
    ),
    ...(uid === undefined ? {} : { uid: requireId(uid, `${place}: uid`) }),
    ...(homeDir === undefined ? {} : { home: requirePath(homeDir, `${place}: homeDir`) }),
  };
}

function parseArchive(given: string, value: unknown, place: string): states.Archive {
  const directory = requirePath(given.length > 1 ? given.replace(/\/$/, '') : given, place);
  const url = requireUrl(value, place);
  const format = archiveFormatOf(url);
  if (format !== undefined) return { directory, url, format };
  throw configError(
    place,
    'the URL of an archive must end with .tar, .tar.gz, .tgz, .tar.bz2, .tbz2 or .zip',
  );
}

const fileKeys = ['content', 'source', 'encoding', 'mode', 'owner', 'group', 'context'];

function parseFile(
  given: string,
  value: unknown,
  place: string,
  budget: states.ContentBudget,
): states.ConfigFile {
  const file = requireMap(value, place);
  if (file.authentication !== undefined) {
    throw configError(
      place,
      'the field `authentication` is not supported, because the minion has no credentials for downloads; remove the field',
    );
  }
  requireKnownKeys(file, fileKeys, place);
  const { content, source, encoding = 'plain', context, owner, group } = file;
  const mode = file.mode === undefined ? undefined : modeOf(file.mode, `${place}: mode`);
  if ((content === undefined) === (source === undefined)) {
    throw configError(place, 'a file must have exactly one of the fields `content` and `source`');
  }
  const common = {
    path: requirePath(given, place),
    ...(mode === undefined ? {} : { mode: mode.digits }),
    ...(owner === undefined ? {} : { owner: requireOwner(owner, `${place}: owner`) }),
    ...(group === undefined ? {} : { group: requireOwner(group, `${place}: group`) }),
  };
  if (mode?.isLink === true) {
    const target = requireLinkTarget(requireText(content, `${place}: content`), place);
    return { ...common, content: { kind: 'link', target } };
  }
  if (content === undefined) {
    if (context !== undefined) {
      throw configError(
        place,
        'the field `context` applies only to `content`, but this file has a `source`; remove `context`',
      );
    }
    return { ...common, content: { kind: 'url', url: requireUrl(source, `${place}: source`) } };
  }
  const bytes = fileBytes({ content, encoding, context, escapesHtml: true }, place, budget);
  return { ...common, content: { kind: 'bytes', bytes } };
}

const commandKeys = ['command', 'env', 'cwd', 'test', 'ignoreErrors', 'waitAfterCompletion'];

function parseCommand(name: string, value: unknown, place: string): states.Command {
  const given = requireMap(value, place);
  requireKnownKeys(given, commandKeys, place);
  const { command, env, cwd, test, ignoreErrors } = given;
  return {
    name,
    command: commandOf(command, place),
    ignoreErrors: isTrue(ignoreErrors),
    ...(env === undefined ? {} : { env: requireEnvironment(env, `${place}: env`) }),
    ...(cwd === undefined ? {} : { cwd: requireText(cwd, `${place}: cwd`) }),
    ...(test === undefined ? {} : { test: requireText(test, `${place}: test`) }),
  };
}

const serviceKeys = ['enabled', 'ensureRunning', 'files', 'sources', 'packages', 'commands'];

function parseServices(manager: string, value: unknown, place: string): readonly states.Service[] {
  if (manager !== 'sysvinit' && manager !== 'systemd') {
    throw configError(
      place,
      `the service manager ${shown(manager)} is not supported; use sysvinit or systemd`,
    );
  }
  return Object.entries(requireMap(value, `${place}: ${manager}`)).map(([name, given]) => {
    const at = `${place}: ${name}`;
    const service = requireMap(given ?? {}, at);
    requireKnownKeys(service, serviceKeys, at);
    const { enabled, ensureRunning, files, sources, packages, commands } = service;
    return {
      name: requireService(name, at),
      ...(enabled === undefined ? {} : { enabled: isTrue(enabled) }),
      ...(ensureRunning === undefined ? {} : { running: isTrue(ensureRunning) }),
      restartOn: {
        files: requireTexts(files, `${at}: files`),
        archives: requireTexts(sources, `${at}: sources`).map((it) => it.replace(/(.)\/$/, '$1')),
        commands: requireTexts(commands, `${at}: commands`),
        packages: Object.entries(requireMap(packages ?? {}, `${at}: packages`)).flatMap(
          ([of, names]) => {
            const known = managers.find((it) => it === of);
            return known === undefined
              ? []
              : [{ manager: known, names: requireTexts(names, `${at}: packages`) }];
          },
        ),
      },
    };
  });
}
