/** The template function `pillar.ext`: compiles a pillar with additional sources. */

import { readExtPillar, unservedReason } from '#config';
import { type ExtPillar, MasterError, minionOwner } from '#master';
import type { WireMap } from '#minion-protocol';
import { unlimitedSteps, WorkBudget } from '#runtime';
import { type PlainData, parseYaml } from '#template';
import { isGiven, map, takes } from '../render/function-arguments.ts';
import { type MergeOptions, mergeOverride, mergePillar } from '../render/merge-pillar.ts';
import { isEmpty, isPillarMap } from '../render/pillar-data.ts';
import type { OnDemandPillar, PillarSource } from '../render/pillar-source.ts';
import { fromWire, textOf, toWire, toWirePillar } from '../render/pillar-wire.ts';
import { openEntry } from './open-ext-pillars.ts';
import type { TextReader } from './pillar-text.ts';

export interface OnDemandDeps {
  /** `id` of the master. As in Salt, `pillar.ext` compiles the pillar of this id. */
  readonly masterId: string;
  /** Option `on_demand_ext_pillar`: modules that templates may name. */
  readonly allowed: readonly string[];
  readonly reader: TextReader;
  readonly merge: MergeOptions;
  /**
   * Returns the source of the pillar to which `pillar.ext` adds data. This pillar already includes
   * the external pillar from the configuration.
   */
  readonly source: () => PillarSource;
}

export function onDemandPillar(deps: OnDemandDeps): OnDemandPillar {
  const { masterId, merge } = deps;
  return ({ id, grains, saltenv }, place) => ({
    'pillar.ext': takes(['external', 'pillar'], async ({ external = null, pillar: override }) => {
      if (place === 'pillar' && id === masterId) {
        throw new TypeError(
          "pillar.ext is not available in the master's own pillar, because pillar.ext compiles this pillar; call it in the pillar of other minions, or in an orchestration",
        );
      }
      const sources = await openSources(external, deps);
      const request = { id: masterId, grains, saltenv, pillarenv: undefined };
      const answer = await deps.source().provide(request);
      let pillar = fromWire(answer.pillar);
      for (const source of sources) {
        const data = fromWire((await source.provide(request)) ?? {});
        if (isPillarMap(pillar) && isPillarMap(data)) pillar = mergePillar(pillar, data, merge);
      }
      if (!isGiven(override)) return pillar;
      const names = Array.from(map(override, 'pillar'), ([name, value]) => [
        textOf(name),
        toWire(value),
      ]);
      const words: WireMap = Object.fromEntries(names);
      const budget = new WorkBudget(
        unlimitedSteps,
        place === 'pillar' ? minionOwner(id) : undefined,
      );
      const below = toWirePillar(map(pillar, 'pillar'));
      return fromWire(await mergeOverride(below, words, merge, budget));
    }),
  });
}

/**
 * Opens the sources that a template names.
 * @throws TypeError for a module that `on_demand_ext_pillar` does not contain, MasterError for
 * invalid options
 */
async function openSources(
  external: PlainData,
  { allowed, reader }: Pick<OnDemandDeps, 'allowed' | 'reader'>,
): Promise<readonly ExtPillar[]> {
  const given = typeof external === 'string' ? parseYaml(external, { name: 'external' }) : external;
  if (isEmpty(given)) return [];
  for (const name of map(given, 'external').keys()) {
    if (!allowed.includes(textOf(name))) {
      throw new TypeError(
        `pillar.ext may not use ${textOf(name)}: the option \`on_demand_ext_pillar\` permits only ${allowed.join(', ')}`,
      );
    }
  }
  const entries = readExtPillar(fromMaps(given));
  return Promise.all(
    entries.map(async (entry) => {
      if (entry === undefined)
        throw new TypeError(
          'pillar.ext: an external pillar in the argument `external` has invalid options; see docs/pillar.md',
        );
      if (entry.module === 'git') {
        throw new TypeError(
          'pillar.ext does not support git; list the git remote in the option `ext_pillar`',
        );
      }
      if (entry.module === 'unserved') {
        throw new MasterError(
          'ERR_NOT_SERVED',
          `ext_pillar ${entry.name} ${unservedReason(entry.name)}`,
        );
      }
      return openEntry(entry, reader);
    }),
  );
}

/** Converts the maps in data to objects, the form of parsed configuration options. */
function fromMaps(data: PlainData): unknown {
  if (Array.isArray(data)) return data.map(fromMaps);
  if (!isPillarMap(data)) return data;
  return Object.fromEntries(Array.from(data, ([name, value]) => [textOf(name), fromMaps(value)]));
}
