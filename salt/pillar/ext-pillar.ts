/** Merges external pillar over the pillar of files, in configured order. */

import type { Logger } from 'pino';
import { type ExtPillar, MasterError, type PillarRequest } from '#master';
import type { FactMap } from '#minion-protocol';
import type { PlainData } from '#template';
import { type MergeOptions, mergePillar } from '../render/merge-pillar.ts';
import { isPillarMap, type PillarMap } from '../render/pillar-data.ts';
import type { PillarAnswer, PillarSource } from '../render/pillar-source.ts';
import { fromWire, toWirePillar } from '../render/pillar-wire.ts';

/**
 * Source of pillar data. The data are merged over or under the pillar of files. For access
 * decisions, the source also provides a version of its data that does not depend on grains.
 */
export interface ExtPillarLayer {
  /** Name of the layer in error messages and in the log. */
  readonly name: string;
  /** Returns the data of this source for a minion, or `undefined` if the source has none. */
  answer(request: PillarRequest): Promise<PillarAnswer | undefined>;
  /** Deletes the cached pillar of a minion. */
  forget?(id: string): void;
}

/**
 * Converts an external pillar source to a layer, which the master merges with other pillar data.
 * The source does not receive grains.
 */
export function layerOf(source: ExtPillar): ExtPillarLayer {
  return {
    name: source.name,
    answer: async ({ id, saltenv, pillarenv }) => {
      const pillar = await source.provide({ id, saltenv, pillarenv });
      return pillar && { pillar, proven: pillar };
    },
  };
}

export interface ExtPillarDeps extends MergeOptions {
  readonly sources: readonly (ExtPillar | ExtPillarLayer)[];
  /**
   * `ext_pillar_first`: whether external pillar is compiled before the pillar files. Pillar files
   * can then read its values, and override them. Default: false.
   */
  readonly areFirst?: boolean;
  readonly log: Logger;
}

/**
 * Adds external pillar to the pillar of `base`. External values override the values of `base`. If
 * `areFirst` is set, the values of `base` override the external values.
 */
export function withExtPillar(base: PillarSource, parts: ExtPillarDeps): PillarSource {
  if (parts.sources.length === 0) return base;
  return parts.areFirst === true ? withExtBelow(base, parts) : withExtAbove(base, parts);
}

function withExtAbove(base: PillarSource, parts: ExtPillarDeps): PillarSource {
  const compile = base.compile?.bind(base);
  return {
    provide: async (request, ...lower) => {
      const [answer, { layers, errors }] = await Promise.all([
        base.provide(request, ...lower),
        askAll(parts, request),
      ]);
      return joinAnswers([answer, ...layers], errors, parts);
    },
    ...(compile === undefined ? {} : { compile }),
    ...inputsOf(base),
  };
}

export interface AddedPillarDeps extends ExtPillarDeps {
  /**
   * Additional sources, merged over the configured ones. Extensions append to this array when they
   * are opened.
   */
  readonly added: readonly ExtPillar[];
}

/**
 * Returns a source that merges the pillar of `base` with the pillars of the configured and the
 * added sources, see {@link withExtPillar}. The list of sources is fixed at the first request.
 */
export function withAddedPillar(base: PillarSource, parts: AddedPillarDeps): PillarSource {
  let joined: PillarSource | undefined;
  const whole = (): PillarSource => {
    joined ??= withExtPillar(base, { ...parts, sources: [...parts.sources, ...parts.added] });
    return joined;
  };
  const compile = base.compile?.bind(base);
  return {
    provide: (request, ...lower) => whole().provide(request, ...lower),
    ...(compile === undefined ? {} : { compile }),
    ...inputsOf(base),
  };
}

/**
 * Returns an object that contains only the method `inputs` of a source, so that a wrapper can offer
 * the same method. The object is empty if the source does not have it.
 */
export function inputsOf(base: PillarSource): Pick<PillarSource, 'inputs'> {
  const inputs = base.inputs?.bind(base);
  return inputs === undefined ? {} : { inputs };
}

function withExtBelow(base: PillarSource, parts: ExtPillarDeps): PillarSource {
  const compile = base.compile?.bind(base);
  const lowerOf = (pillars: readonly FactMap[]): PillarMap => mergeAll(pillars.map(asMap), parts);
  const wholeOf = (layers: readonly PillarAnswer[]): PillarMap =>
    lowerOf(layers.map(({ pillar }) => pillar));
  return {
    provide: async (request) => {
      const { layers, errors } = await askAll(parts, request);
      const lower = wholeOf(layers);
      const provenLower = isProven(layers) ? lower : lowerOf(layers.map(({ proven }) => proven));
      const answer = await base.provide(request, lower, provenLower);
      return joinAnswers([...layers, answer], errors, parts);
    },
    ...(compile === undefined
      ? {}
      : {
          compile: async (request) =>
            compile(request, wholeOf((await askAll(parts, request)).layers)),
        }),
    ...inputsOf(base),
  };
}

interface Layers {
  readonly layers: readonly PillarAnswer[];
  readonly errors: readonly string[];
}

async function askAll({ sources, log }: ExtPillarDeps, request: PillarRequest): Promise<Layers> {
  const errors: string[] = [];
  const given = await Promise.all(
    sources.map(async (source) => {
      try {
        return await ('answer' in source ? source : layerOf(source)).answer(request);
      } catch (err) {
        if (err instanceof MasterError && err.code === 'ERR_NOT_SERVED') {
          errors.push(err.message);
          return undefined;
        }
        log.error(
          { minion: request.id, source: source.name, err },
          'an external pillar failed for a minion',
        );
        errors.push(`Failed to load ext_pillar ${source.name}. Please see master log for details.`);
        return undefined;
      }
    }),
  );
  return { layers: given.filter((answer) => answer !== undefined), errors };
}

/**
 * Merges the results of all sources. Each result contains the pillar, and a second version
 * (`proven`) that does not depend on grains. The versions are merged separately. If the two
 * versions are the same object in every result, the merged result contains one object for both.
 */
function joinAnswers(
  answers: readonly PillarAnswer[],
  errors: readonly string[],
  merge: MergeOptions,
): PillarAnswer {
  const join = (pick: (answer: PillarAnswer) => FactMap): FactMap =>
    joined(
      answers.map((answer) => asMap(pick(answer))),
      errors,
      merge,
    );
  const pillar = join((answer) => answer.pillar);
  return { pillar, proven: isProven(answers) ? pillar : join((answer) => answer.proven) };
}

/** Whether none of these pillars depends on grains. */
function isProven(answers: readonly PillarAnswer[]): boolean {
  return answers.every(({ pillar, proven }) => proven === pillar);
}

/**
 * Merges pillar maps into one. Appends the given errors to the list `_errors` of the merged map.
 * @param errors - error messages
 */
function joined(
  maps: readonly PillarMap[],
  errors: readonly string[],
  merge: MergeOptions,
): FactMap {
  const whole = mergeAll(maps, merge);
  if (errors.length === 0) return toWirePillar(whole);
  const before = whole.get('_errors');
  const all = [...(Array.isArray(before) ? before : []), ...errors];
  return toWirePillar(new Map<PlainData, PlainData>([...whole, ['_errors', all]]));
}

function mergeAll([first, ...others]: readonly PillarMap[], merge: MergeOptions): PillarMap {
  return others.reduce((lower, upper) => mergePillar(lower, upper, merge), first ?? new Map());
}

function asMap(pillar: FactMap): PillarMap {
  const data = fromWire(pillar);
  return isPillarMap(data) ? data : new Map();
}
