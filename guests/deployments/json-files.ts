/** Groups `hiera` and `json-file`, which write data to files of the minion. */

import { isPlainMap, states } from '#heat-bridge';
import { writeJson } from '#runtime';
import { readConfigJson } from '../config-json.ts';
import type { GroupConfig } from './group-config.ts';

const { configError, requireMap, requirePath, requireTexts } = states;

const hieraFile = '/etc/puppet/hiera.yaml';
const hieraData = '/etc/puppet/hieradata';

/**
 * Returns the files of the group `hiera`: its hierarchy and its data.
 * @throws BridgeError ERR_CFN_INIT
 */
export function hieraConfig(given: GroupConfig): states.Config {
  return filesConfig(given, hieraFiles);
}

/**
 * Returns the files of the group `json-file`, by path.
 * @throws BridgeError ERR_CFN_INIT
 */
export function jsonFileConfig(given: GroupConfig): states.Config {
  return filesConfig(given, filesOf);
}

function filesConfig({ group, config, paths }: GroupConfig, read: typeof filesOf): states.Config {
  const place = `group ${group}`;
  const map = requireMap(typeof config === 'string' ? readConfigJson(config) : config, place);
  const files = read(map, place);
  const outside = files.find(({ path }) => !isBelow(path, paths));
  if (outside !== undefined) {
    throw configError(
      place,
      `the catalog entry does not permit the file ${outside.path}: it is outside the permitted paths`,
    );
  }
  return {
    name: group,
    files,
    ...{ packages: [], groups: [], users: [], archives: [], commands: [], services: [] },
  };
}

function isBelow(path: string, directories: readonly string[] | undefined): boolean {
  if (directories === undefined) return true;
  return directories.some((it) => path.startsWith(it.endsWith('/') ? it : `${it}/`));
}

function filesOf(
  map: Readonly<Record<string, unknown>>,
  place: string,
): readonly states.ConfigFile[] {
  return Object.entries(map).map(([path, value]) => jsonFile(requirePath(path, place), value));
}

/** Formats JSON as Python does with an indent of 4 and sorted keys. */
function jsonFile(path: string, value: unknown): states.ConfigFile {
  const bytes = Buffer.from(writeJson(sorted(value), 4));
  return { path, content: { kind: 'bytes', bytes }, mode: '0600' };
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isPlainMap(value)) return value;
  const keys = Object.keys(value).sort();
  return Object.fromEntries(keys.map((key) => [key, sorted(value[key])]));
}

const nameForm = /^[A-Za-z0-9_][A-Za-z0-9_.-]*(?:\/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$/;

function hieraFiles(
  map: Readonly<Record<string, unknown>>,
  place: string,
): readonly states.ConfigFile[] {
  const hierarchy = requireTexts(map.hierarchy, `${place}: hierarchy`);
  const data = requireMap(map.datafiles ?? {}, `${place}: datafiles`);
  // Keys are Ruby symbols, which JSON cannot represent.
  const lines = [
    '---',
    ':backends:',
    '  - json',
    ':json:',
    `  :datadir: ${hieraData}`,
    ':hierarchy:',
    ...hierarchy.map((it) => `  - ${writeJson(it)}`),
    '',
  ];
  const config: states.ConfigFile = {
    path: hieraFile,
    content: { kind: 'bytes', bytes: Buffer.from(lines.join('\n')) },
    mode: '0644',
  };
  const files = Object.entries(data).map(([name, value]) => {
    if (!nameForm.test(name))
      throw configError(
        `${place}: datafiles`,
        'names may contain only letters, digits, _, ., - and /',
      );
    return jsonFile(requirePath(`${hieraData}/${name}.json`, place), value);
  });
  return [config, ...files];
}
