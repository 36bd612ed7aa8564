import { createHash } from 'node:crypto';
import { mergeStrategies, withheldOptions } from '#config';
import { pythonStr, traverseFacts, type WireMap, type WireValue } from '#minion-protocol';
import { minionWork, WorkBudget } from '#runtime';
import { ChangedArguments, type LateValue, type PlainData, type SaltFunction } from '#template';
import { compileGlob } from '#template/python/fnmatch.ts';
import { isInNetwork, parseInterface, parseNetwork } from '#template/python/ip-address.ts';
import { isGiven, map, takes, text, textOr } from './function-arguments.ts';
import type { TracedGrains } from './grains.ts';
import { copyDeep, copyMap, mergeDeep, mergePillar } from './merge-pillar.ts';
import { directoryOf, joinPaths, normalPath } from './paths.ts';
import { isEmpty, isPillarMap, type PillarMap } from './pillar-data.ts';
import { fromWire, toWire } from './pillar-wire.ts';

/** Data that the template functions read. */
export interface FunctionWorld {
  readonly grains: TracedGrains;
  readonly setting: {
    readonly pillar: PillarMap;
    readonly raisesOnMissing: boolean;
    /** `pillar_merge_lists`: whether lists are merged. Default: false. */
    readonly mergeLists?: boolean;
    /** Options of the master that `config.get` returns, by their names in Salt. */
    readonly masterOptions: WireMap;
  };
}

export function saltFunctions({
  grains,
  setting,
}: FunctionWorld): Readonly<Record<string, SaltFunction>> {
  const grain = (path: string, delimiter: string): WireValue | undefined =>
    find(grains, path, delimiter);
  const pillar = { get: (key: string): WireValue | undefined => fromPillar(setting.pillar, key) };
  const lateGrain = (path: string, delimiter: string): LateValue | undefined => {
    const [first = '', ...rest] = path.split(delimiter);
    return rest.reduce<LateValue | undefined>((late, key) => late?.child(key), grains.late(first));
  };
  const option = ([first = '', ...rest]: readonly string[]): WireValue | undefined => {
    if (withheldOptions.has(first)) {
      throw new TypeError(
        `the option ${first} of the master is not available to templates; see docs/pillar.md`,
      );
    }
    const { masterOptions: all } = setting;
    return traverseFacts(Object.hasOwn(all, first) ? all[first] : undefined, rest);
  };
  const getGrain = takes(
    ['key', 'default', 'delimiter'],
    ({ key, default: other = '', delimiter }) => {
      const [path, separator] = [text(key, 'key'), textOr(delimiter, ':')];
      return lateGrain(path, separator) ?? grain(path, separator) ?? other;
    },
  );
  return {
    'grains.get': getGrain,
    'grains.fetch': getGrain,
    'grains.equals': takes(['key', 'value'], ({ key, value = null }) => {
      return pythonStr(toWire(value)) === pythonStr(grain(text(key, 'key'), ':') ?? '');
    }),
    'grains.item': items((key, delimiter) => grain(key, delimiter)),
    'grains.ls': () => Object.keys(grains.whole()).sort(),
    'grains.items': () => grains.whole(),
    'grains.has_value': takes(['key'], ({ key }) => {
      return isTruthyWire(grain(text(key, 'key'), ':'));
    }),
    'grains.filter_by': takes(
      ['lookup_dict', 'grain', 'merge', 'default', 'base'],
      ({ lookup_dict: table, grain: name, merge, default: other, base }) => {
        const value = grain(textOr(name, 'os_family'), ':');
        return filterBy(map(table, 'lookup_dict'), value, { merge, other, base });
      },
    ),
    ...pillarFunctions(setting, (path, delimiter) => find(pillar, path, delimiter)),
    'config.get': takes(
      [
        'key',
        'default',
        'delimiter',
        'merge',
        'omit_opts',
        'omit_pillar',
        'omit_master',
        'omit_grains',
      ],
      ({ key, default: other = '', delimiter, merge, ...omitted }) => {
        if (isGiven(merge))
          throw new TypeError(
            'the argument `merge` is not supported; use the function defaults.merge',
          );
        const [name, separator] = [text(key, 'key'), textOr(delimiter, ':')];
        const sources: readonly [string, () => unknown][] = [
          ['omit_opts', () => option(name.split(separator))],
          ['omit_grains', () => grain(name, separator)],
          ['omit_pillar', () => find(pillar, name, separator)],
        ];
        for (const [flag, read] of sources) {
          const value = omitted[flag] === true ? undefined : read();
          if (value !== undefined) return value;
        }
        return other;
      },
    ),
    'config.option': takes(
      ['value', 'default', 'omit_opts', 'omit_grains', 'omit_pillar', 'omit_master', 'omit_all'],
      ({ value, default: other = '', omit_all: omitsAll, ...omitted }) => {
        const name = text(value, 'value');
        const sources: readonly [string, () => unknown][] = [
          ['omit_opts', () => option([name])],
          ['omit_grains', () => grains.get(name)],
          ['omit_pillar', () => setting.pillar.get(name)],
        ];
        const found = sources
          .filter(([flag]) => omitsAll !== true && omitted[flag] !== true)
          .map(([, read]) => read())
          .find((it) => it !== undefined);
        return found ?? other ?? '';
      },
    ),
    ...mergers,
    ...digests,
    ...others,
  };
}

/** Function that returns the value at a path, or `undefined`. */
type Finder = (path: string, delimiter: string) => WireValue | undefined;

/** Implements `grains.item` and `pillar.item`, which return several values by key. */
function items(lookUp: Finder): SaltFunction {
  return (keys, { default: other = '', delimiter }) => {
    const separator = textOr(delimiter, ':');
    const values = keys.map((key) => lookUp(text(key, 'key'), separator));
    return new Map(keys.map((key, index) => [key, values[index] ?? other]));
  };
}

/** Returns the pillar functions [salt/modules/pillar.py]. */
function pillarFunctions(
  setting: FunctionWorld['setting'],
  lookUp: Finder,
): Readonly<Record<string, SaltFunction>> {
  const get = takes(
    ['key', 'default', 'merge', 'merge_nested_lists', 'delimiter'],
    ({ key, default: other, merge, merge_nested_lists: lists, delimiter }) => {
      const value = lookUp(text(key, 'key'), textOr(delimiter, ':'));
      if (merge === true && other !== undefined) {
        const mergeLists = isGiven(lists) ? lists === true : setting.mergeLists === true;
        return mergedOver(other, value, mergeLists);
      }
      if (value !== undefined) return value;
      if (other === undefined && setting.raisesOnMissing) {
        throw new Error(`Pillar key not found: ${key}`);
      }
      return other === undefined ? '' : other;
    },
  );
  return {
    'pillar.get': get,
    'pillar.fetch': get,
    'pillar.item': items(lookUp),
    'pillar.items': () => setting.pillar,
    'pillar.ls': () => [...setting.pillar.keys()],
    'pillar.raw': takes(['key'], ({ key }) => {
      return isGiven(key) ? (setting.pillar.get(key) ?? new Map()) : setting.pillar;
    }),
    'pillar.keys': takes(['key', 'delimiter'], ({ key, delimiter }) => {
      const value = lookUp(text(key, 'key'), textOr(delimiter, ':'));
      if (value === undefined) throw new Error(`Pillar key not found: ${key}`);
      return [...map(fromWire(value), `the pillar value in key ${key}`).keys()];
    }),
    'pillar.filter_by': takes(
      ['lookup_dict', 'pillar', 'merge', 'default', 'base'],
      ({ lookup_dict: table, pillar: name, merge, default: other, base }) => {
        const value = lookUp(text(name, 'pillar'), ':');
        return filterBy(map(table, 'lookup_dict'), value, { merge, other, base });
      },
    ),
  };
}

/**
 * Merges a value over its default if both are maps or both are lists. Otherwise returns the value
 * unchanged.
 */
function mergedOver(
  other: PlainData,
  found: WireValue | undefined,
  mergeLists: boolean,
): PlainData | WireValue {
  if (found === undefined) return copyDeep(other);
  const value = fromWire(found);
  if (isPillarMap(other) && isPillarMap(value)) return mergeDeep(copyMap(other), value, mergeLists);
  if (!Array.isArray(other) || !Array.isArray(value)) return found;
  const joined = mergeDeep(new Map([['', copyDeep(other)]]), new Map([['', value]]), true);
  return joined.get('') ?? [];
}

/** Functions that merge dicts [salt/modules/{defaults,slsutil}.py]. */
const mergers: Readonly<Record<string, SaltFunction>> = {
  'defaults.merge': takes(
    ['dest', 'src', 'merge_lists', 'in_place', 'convert_none'],
    ({ dest = null, src = null, merge_lists: lists, in_place: isInPlace, convert_none: none }) => {
      const convertsNone = none !== false;
      if (dest === null && convertsNone && isInPlace !== false) {
        throw new TypeError("Can't perform in-place merge into NoneType");
      }
      const [lower, upper] = [dictOf(dest, 'dest', convertsNone), dictOf(src, 'src', convertsNone)];
      return isInPlace === false
        ? mergeDeep(copyMap(lower), upper, lists === true)
        : ChangedArguments.merging(lower, mergeDeep(lower, upper, lists === true));
    },
  ),
  'defaults.deepcopy': takes(['source'], ({ source = null }) => copyDeep(source)),
  'defaults.update': takes(
    ['dest', 'defaults', 'merge_lists', 'in_place', 'convert_none'],
    ({ dest = null, defaults = null, merge_lists: lists, in_place: place, convert_none: none }) => {
      const isInPlace = place !== false;
      const convertsNone = none !== false;
      if (dest === null && isInPlace) {
        throw new TypeError("Can't perform in-place update into NoneType");
      }
      const nodes = dictOf(dest, 'dest', convertsNone);
      const lower = dictOf(defaults, 'defaults', convertsNone);
      const entries = Array.from(isInPlace ? nodes : copyMap(nodes), ([name, values]) => {
        const upper = dictOf(values, `the value of ${pythonText(name)}`, convertsNone);
        return [name, mergeDeep(copyMap(lower), upper, lists !== false)] as const;
      });
      const updated = new Map<PlainData, PlainData>(entries);
      return isInPlace ? ChangedArguments.setting(nodes, updated) : updated;
    },
  ),
  'slsutil.update': takes(
    ['dest', 'upd', 'recursive_update', 'merge_lists'],
    ({ dest, upd, recursive_update: isDeep, merge_lists: lists }) => {
      const [lower, upper] = [map(dest, 'dest'), map(upd, 'upd')];
      return isDeep === false
        ? ChangedArguments.setting(lower, upper)
        : ChangedArguments.merging(lower, mergeDeep(lower, upper, lists === true));
    },
  ),
  'slsutil.merge': takes(
    ['obj_a', 'obj_b', 'strategy', 'renderer', 'merge_lists'],
    ({ obj_a: lower, obj_b: upper, strategy: name, merge_lists: lists }) => {
      const strategy = mergeStrategies.find((known) => known === (name ?? 'smart')) ?? 'recurse';
      const options = { strategy, mergeLists: lists === true };
      const [first, second] = [map(lower, 'obj_a'), map(upper, 'obj_b')];
      if (strategy === 'list') return mergePillar(first, second, options);
      const merged = mergePillar(copyMap(first), second, options);
      if (strategy !== 'overwrite') return merged;
      // Salt replaces the common entries of the first dict before it copies this dict.
      const entries = new Map([...second].filter(([key]) => first.has(key)));
      return new ChangedArguments(merged, [{ dict: first, entries, isDeep: false }]);
    },
  ),
};

/**
 * Checks that an argument is a dict, and returns it. If `convertsNone` is set, the argument may
 * also be `None`, which becomes an empty dict.
 */
function dictOf(value: PlainData, name: string, convertsNone: boolean): PillarMap {
  return value === null && convertsNone ? new Map() : map(value, name);
}

const digests: Readonly<Record<string, SaltFunction>> = {
  'hashutil.md5_digest': digest('md5'),
  'hashutil.sha256_digest': digest('sha256'),
  'hashutil.sha512_digest': digest('sha512'),
  'hashutil.base64_b64encode': takes(['instr'], ({ instr }) => {
    return Buffer.from(text(instr, 'instr')).toString('base64');
  }),
  'hashutil.base64_b64decode': takes(['instr'], ({ instr }) => {
    return Buffer.from(text(instr, 'instr'), 'base64').toString('utf8');
  }),
};

const others: Readonly<Record<string, SaltFunction>> = {
  'file.basename': takes(['path'], ({ path }) => {
    const name = text(path, 'path');
    return name.slice(name.lastIndexOf('/') + 1);
  }),
  'file.dirname': takes(['path'], ({ path }) => directoryOf(text(path, 'path'))),
  'file.join': (parts) => joinPaths(parts.map((part) => text(part, 'path'))),
  'file.normpath': takes(['path'], ({ path }) => normalPath(text(path, 'path'))),
  'test.ping': () => true,
  'test.arg': (args, kwargs) => ({ args: [...args], kwargs }),
  'test.echo': takes(['text'], ({ text: value = '' }) => value),
  'network.ip_in_subnet': takes(['ip_addr', 'cidr'], ({ ip_addr: address, cidr }) => {
    const network = typeof cidr === 'string' ? parseNetwork(cidr) : undefined;
    // As in Salt, an invalid network contains no address.
    if (network === undefined) return false;
    return (Array.isArray(address) ? address : [address]).some((item) => {
      const parsed = parseInterface(text(item, 'ip_addr'));
      if (parsed === undefined || text(item, 'ip_addr').includes('/')) {
        throw new TypeError(`${item} does not appear to be an IPv4 or IPv6 address`);
      }
      return isInNetwork(parsed, network);
    });
  }),
};

function digest(type: string): SaltFunction {
  return takes(['instr'], ({ instr }) => {
    return createHash(type).update(text(instr, 'instr')).digest('hex');
  });
}

interface Filter {
  readonly merge: PlainData | undefined;
  readonly other: PlainData | undefined;
  readonly base: PlainData | undefined;
}

/**
 * Implements `filter_by` [salt/utils/data.py filter_by]. As in Salt, `merge` changes the value in
 * the table.
 */
function filterBy(
  table: PillarMap,
  value: WireValue | undefined,
  { merge, other = 'default', base }: Filter,
): PlainData | ChangedArguments {
  const values = Array.isArray(value) ? value : value === undefined ? [] : [value];
  let found: PlainData = chosen(table, values) ?? table.get(other) ?? null;
  const lowest = base === undefined || isEmpty(base) ? undefined : table.get(base);
  if (found === null) found = lowest ?? null;
  else if (isPillarMap(lowest)) {
    found = mergeDeep(copyMap(lowest), map(found, 'the value found'), false);
  }
  return mergedInto(found, merge, false);
}

/**
 * Merges the argument `merge` of a look-up into the value that was found, and returns the value. As
 * in Salt, this changes the table in which the value was found.
 */
export function mergedInto(
  found: PlainData,
  merge: PlainData | undefined,
  mergeLists: boolean,
): PlainData | ChangedArguments {
  if (merge === undefined || isEmpty(merge)) return found;
  const upper = map(merge, 'merge');
  if (found === null) return upper;
  const lower = map(found, 'the value found');
  return ChangedArguments.merging(lower, mergeDeep(lower, copyMap(upper), mergeLists));
}

function chosen(table: PillarMap, values: readonly WireValue[]): PlainData | undefined {
  const budget = new WorkBudget(minionWork);
  for (const value of values) {
    const text = pythonStr(value);
    for (const [key, result] of table) {
      if (!compileGlob(pythonText(key), budget)(text)) continue;
      if (result !== null) return result;
      break;
    }
  }
  return undefined;
}

function pythonText(key: PlainData): string {
  return typeof key === 'string' ? key : pythonStr(toWire(key));
}

function fromPillar(pillar: PillarMap, key: string): WireValue | undefined {
  const value = pillar.get(key);
  return value === undefined ? undefined : toWire(value);
}

function find(
  source: { get(key: string): WireValue | undefined },
  path: string,
  delimiter: string,
): WireValue | undefined {
  const [first = '', ...rest] = path.split(delimiter);
  return traverseFacts(source.get(first), rest);
}

function isTruthyWire(value: WireValue | undefined): boolean {
  if (Array.isArray(value)) return value.length > 0;
  return Boolean(value);
}
