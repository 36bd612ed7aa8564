/** Reads and merges top files [salt/pillar/__init__.py get_tops, merge_tops]. */

import type { PlainData } from '#template';
import { isPillarMap, type PillarMap, reasonOf } from '../render/pillar-data.ts';
import type { PillarSetting } from '../render/pillar-sources.ts';
import type { Reads } from '../render/reads.ts';
import { findSls, type SlsRenderer } from '../render/sls-renderer.ts';

/** One target of the top files. */
export interface TopTarget {
  readonly saltenv: string;
  readonly tgt: string;
  /** Names of SLS, and options of the target, in the order of the file. */
  readonly items: readonly PlainData[];
}

/** The top files of all environments, merged. */
export interface Top {
  readonly targets: readonly TopTarget[];
  /** SLS that may be missing without an error, as `<saltenv>:<sls>`. */
  readonly mayBeMissing: ReadonlySet<string>;
  readonly errors: readonly string[];
}

interface RenderedTop {
  readonly saltenv: string;
  readonly data: PlainData;
}

/** Reads the top files that apply to this minion, from one or several environments. */
export async function readTop(
  setting: PillarSetting,
  reads: Reads,
  renderer: SlsRenderer,
): Promise<Top> {
  const errors: string[] = [];
  try {
    const rendered = await renderTops(setting, reads, renderer, errors);
    return { ...mergeTops(rendered), errors };
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    errors.push('Error encountered while rendering pillar top file.');
    return { targets: [], mayBeMissing: new Set(), errors };
  }
}

async function renderTops(
  setting: PillarSetting,
  reads: Reads,
  renderer: SlsRenderer,
  errors: string[],
): Promise<RenderedTop[]> {
  const tops: RenderedTop[] = [];
  try {
    for (const saltenv of envsOf(setting)) {
      const file = await reads.read(setting.top, saltenv);
      if (file === undefined) continue;
      const data = await renderer.render(file, { saltenv, sls: '', defaults: new Map() });
      tops.push({ saltenv, data });
    }
  } catch (error) {
    errors.push(`Rendering Primary Top file failed, render error:\n${reasonOf(error)}`);
  }
  const included = await renderIncluded(tops, reads, renderer, errors);
  return byEnvironment([...tops, ...included], setting.envs);
}

/**
 * Renders the top files that the given top files include. As in Salt, includes of included top
 * files are ignored.
 */
async function renderIncluded(
  tops: readonly RenderedTop[],
  reads: Reads,
  renderer: SlsRenderer,
  errors: string[],
): Promise<RenderedTop[]> {
  const included: RenderedTop[] = [];
  for (const { saltenv, data: top } of tops) {
    const names = isPillarMap(top) ? new Set(listOf(top.get('include'))) : [];
    for (const sls of names) {
      try {
        const file = await findSls(reads, String(sls), saltenv);
        if (file === undefined) continue;
        const as = { saltenv, sls: '', defaults: new Map() };
        included.push({ saltenv, data: await renderer.render(file, as) });
      } catch (error) {
        errors.push(`Rendering Top file ${sls} failed, render error:\n${reasonOf(error)}`);
      }
    }
  }
  return included;
}

/** Returns the environments whose top files apply to the minion. */
function envsOf({ pillarenv, saltenv, envs, strategy }: PillarSetting): readonly string[] {
  if (pillarenv !== undefined) return envs.filter((env) => env === pillarenv);
  return strategy === 'none' ? envs.filter((env) => env === (saltenv ?? 'base')) : envs;
}

function byEnvironment(tops: readonly RenderedTop[], envs: readonly string[]): RenderedTop[] {
  return envs.flatMap((env) => tops.filter(({ saltenv }) => saltenv === env));
}

interface MutableTarget extends TopTarget {
  order: number;
  items: readonly PlainData[];
}

/**
 * Merges top files. If a target occurs in several files, the last one is used.
 * @throws TypeError for invalid structures
 */
function mergeTops(tops: readonly RenderedTop[]): Omit<Top, 'errors'> {
  const merged = new Map<string, MutableTarget>();
  const mayBeMissing = new Set<string>();
  for (const { data } of tops) {
    for (const [env, targets] of entriesOf(data)) {
      if (env === 'include') continue;
      for (const [key, value] of entriesOf(targets)) {
        const [saltenv, tgt] = [String(env), String(key)];
        const { options, names } = readItems(value);
        const mark = `${saltenv}\0${tgt}`;
        const order = orderOf(options);
        const items = [...options.filter((option) => option.has('match')), ...names];
        merged.set(mark, { ...(merged.get(mark) ?? { saltenv, tgt }), order, items });
        if (!options.some((option) => isTrue(option.get('ignore_missing')))) continue;
        for (const name of names) mayBeMissing.add(`${saltenv}:${name}`);
      }
    }
  }
  const inOrder = [...merged.values()].sort((left, right) => left.order - right.order);
  return { targets: groupByEnv(inOrder, merged.values()), mayBeMissing };
}

/**
 * Groups targets by environment.
 * @param sorted - targets in their final order, which they keep within each environment
 * @param met - the same targets in the order of the top files. The environments are sorted by their
 * first target in this order
 */
function groupByEnv(sorted: readonly TopTarget[], met: Iterable<TopTarget>): TopTarget[] {
  const envs = new Set(Array.from(met, ({ saltenv }) => saltenv));
  return [...envs].flatMap((env) => sorted.filter(({ saltenv }) => saltenv === env));
}

/**
 * Reads the items of a target in a top file. As in Python, the items of a text are its letters. A
 * later step reports these letters as missing SLS.
 */
function readItems(value: PlainData): { readonly options: PillarMap[]; readonly names: string[] } {
  const items = typeof value === 'string' ? [...value] : listOf(value);
  return {
    options: items.filter(isPillarMap),
    names: [...new Set(items.filter((item) => typeof item === 'string'))],
  };
}

function orderOf(options: readonly PillarMap[]): number {
  const orders = options.flatMap((option) => option.get('order') ?? []);
  const order = orders.at(-1) ?? 0;
  if (typeof order === 'number') return order;
  if (typeof order === 'boolean') return order ? 1 : 0;
  if (typeof order !== 'string')
    throw new TypeError('the value of `order` in a top file must be a number');
  return /^\s*[+-]?\d+\s*$/.test(order) ? Number(order) : 0;
}

function isTrue(data: PlainData | undefined): boolean {
  return Array.isArray(data) || isPillarMap(data) ? true : Boolean(data);
}

/**
 * Returns the entries of a map.
 * @throws TypeError if the value is not a map
 */
function entriesOf(data: PlainData): Iterable<readonly [PlainData, PlainData]> {
  if (isPillarMap(data)) return data;
  throw new TypeError('a top file, and each environment in it, must be a map');
}

/**
 * Returns the items of a list or the keys of a map.
 * @throws TypeError for other values
 */
function listOf(data: PlainData | undefined): readonly PlainData[] {
  if (data === undefined) return [];
  if (Array.isArray(data)) return data;
  if (isPillarMap(data)) return [...data.keys()];
  throw new TypeError('in a top file, the value of a target and of `include` must be a list');
}
