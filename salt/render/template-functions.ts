import { createHash } from 'node:crypto';
import { mergeStrategies } from '#config';
import { pythonStr, traverseFacts, type WireValue } from '#minion-protocol';
import type { PlainData, SaltFunction } from '#template';
import { compileGlob } from '#template/python/fnmatch.ts';
import type { TracedGrains } from './grains.ts';
import { mergeDeep, mergePillar } from './merge-pillar.ts';
import { isPillarMap, type PillarMap } from './pillar-data.ts';
import { toWire } from './pillar-wire.ts';

/** What they look at. */
export interface FunctionWorld {
  readonly grains: TracedGrains;
  readonly setting: {
    readonly pillar: PillarMap;
    readonly raisesOnMissing: boolean;
    readonly opts: Readonly<Record<string, unknown>>;
  };
}

type Named = Readonly<Record<string, PlainData>>;

export function saltFunctions({
  grains,
  setting,
}: FunctionWorld): Readonly<Record<string, SaltFunction>> {
  const grain = (path: string, delimiter: string): WireValue | undefined =>
    find(grains, path, delimiter);
  const pillar = { get: (key: string): WireValue | undefined => fromPillar(setting.pillar, key) };
  return {
    'grains.get': takes(['key', 'default', 'delimiter'], ({ key, default: other, delimiter }) => {
      return grain(text(key, 'key'), textOr(delimiter, ':')) ?? other ?? '';
    }),
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
    'pillar.get': takes(['key', 'default'], ({ key, default: other }) => {
      const value = find(pillar, text(key, 'key'), ':');
      if (value !== undefined) return value;
      if (other === undefined && setting.raisesOnMissing) {
        throw new Error(`Pillar key not found: ${key}`);
      }
      return other ?? '';
    }),
    'pillar.items': () => setting.pillar,
    'config.get': takes(['key', 'default'], ({ key, default: other }) => {
      const name = text(key, 'key');
      const option = Object.hasOwn(setting.opts, name) ? setting.opts[name] : undefined;
      return option ?? grain(name, ':') ?? find(pillar, name, ':') ?? other ?? '';
    }),
    ...mergers,
    ...digests,
  };
}

const mergers: Readonly<Record<string, SaltFunction>> = {
  'defaults.merge': takes(['dest', 'upd', 'merge_lists'], ({ dest, upd, merge_lists: lists }) => {
    return mergeDeep(map(dest, 'dest'), map(upd, 'upd'), lists === true);
  }),
  'slsutil.update': takes(
    ['dest', 'upd', 'recursive_update', 'merge_lists'],
    ({ dest, upd, recursive_update: isDeep, merge_lists: lists }) => {
      const [lower, upper] = [map(dest, 'dest'), map(upd, 'upd')];
      return isDeep === false
        ? new Map([...lower, ...upper])
        : mergeDeep(lower, upper, lists === true);
    },
  ),
  'slsutil.merge': takes(
    ['obj_a', 'obj_b', 'strategy', 'renderer', 'merge_lists'],
    ({ obj_a: lower, obj_b: upper, strategy: name, merge_lists: lists }) => {
      const strategy = mergeStrategies.find((known) => known === (name ?? 'smart')) ?? 'recurse';
      const options = { strategy, mergeLists: lists === true };
      return mergePillar(map(lower, 'obj_a'), map(upper, 'obj_b'), options);
    },
  ),
};

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

function digest(type: string): SaltFunction {
  return takes(['instr'], ({ instr }) => {
    return createHash(type).update(text(instr, 'instr')).digest('hex');
  });
}

/** A function of named parameters, each given by place or by name. */
function takes(names: readonly string[], call: (given: Named) => unknown): SaltFunction {
  return (args, kwargs) => {
    if (args.length > names.length) {
      throw new TypeError(`at most ${names.length} arguments are taken`);
    }
    for (const name of Object.keys(kwargs)) {
      if (!names.includes(name)) throw new TypeError(`${name} is no argument of it`);
    }
    const byPlace = args.map((value, index): [string, PlainData] => [names[index] ?? '', value]);
    return call({ ...Object.fromEntries(byPlace), ...kwargs });
  };
}

interface Filter {
  readonly merge: PlainData | undefined;
  readonly other: PlainData | undefined;
  readonly base: PlainData | undefined;
}

/** [salt/utils/data.py filter_by] */
function filterBy(
  table: PillarMap,
  value: WireValue | undefined,
  { merge, other = 'default', base }: Filter,
): PlainData {
  const values = Array.isArray(value) ? value : value === undefined ? [] : [value];
  let found: PlainData = chosen(table, values) ?? table.get(other) ?? null;
  const lowest = base === undefined || base === null ? undefined : table.get(base);
  if (found === null) found = lowest ?? null;
  else if (isPillarMap(lowest)) found = mergeDeep(lowest, map(found, 'the value found'), false);
  if (merge === undefined || merge === null) return found;
  const upper = map(merge, 'merge');
  return found === null ? upper : mergeDeep(map(found, 'the value found'), upper, false);
}

function chosen(table: PillarMap, values: readonly WireValue[]): PlainData | undefined {
  for (const value of values) {
    for (const [key, result] of table) {
      if (result !== null && compileGlob(pythonText(key))(pythonStr(value))) return result;
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

function text(value: PlainData | undefined, name: string): string {
  if (typeof value === 'string') return value;
  throw new TypeError(`${name} is not text`);
}

function textOr(value: PlainData | undefined, fallback: string): string {
  return typeof value === 'string' ? value : fallback;
}

function map(value: PlainData | undefined, name: string): PillarMap {
  if (isPillarMap(value)) return value;
  throw new TypeError(`${name} is not a dictionary`);
}
