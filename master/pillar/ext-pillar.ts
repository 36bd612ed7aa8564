/** Pillar from elsewhere, put over that of the files in the order in which it is listed. */
import type { Logger } from 'pino';
import type { FactMap } from '../../minion-protocol/index.ts';
import type { PlainData } from '../../template/index.ts';
import type { PillarRequest } from '../requests/pillar.ts';
import type { PillarAnswer, PillarSource } from './answer.ts';
import { isPillarMap, type MergeOptions, mergePillar, type PillarMap } from './merge.ts';
import { fromWire, toWirePillar } from './wire.ts';

/**
 * Whose pillar is asked for. The id is verified; grains are not told, so that nothing a minion
 * says of itself decides what it gets [THREATS M-09].
 */
export type ExtPillarRequest = Pick<PillarRequest, 'id' | 'saltenv' | 'pillarenv'>;

/**
 * A source of pillar beside the files, as `ext_pillar` is in Salt. It is asked each time that a
 * minion asks, and may be asked for several minions at once.
 */
export interface ExtPillar {
  /** In errors and in the log. */
  readonly name: string;
  /**
   * What a minion gets from it; `undefined`: nothing. Where it fails, the minion's pillar has
   * `_errors` with its name, and the log has the reason.
   */
  provide(request: ExtPillarRequest): Promise<FactMap | undefined>;
}

/** What {@link withExtPillar} needs besides. */
export interface ExtPillarParts extends MergeOptions {
  readonly sources: readonly ExtPillar[];
  /** `ext_pillar_first`: the files lie over the sources, and see what they gave. Default false. */
  readonly areFirst?: boolean;
  readonly log: Logger;
}

/** A source of pillar with others over it, or under it. */
export function withExtPillar(base: PillarSource, parts: ExtPillarParts): PillarSource {
  if (parts.sources.length === 0) return base;
  return parts.areFirst === true ? withExtBelow(base, parts) : withExtAbove(base, parts);
}

function withExtAbove(base: PillarSource, parts: ExtPillarParts): PillarSource {
  const compile = base.compile?.bind(base);
  return {
    provide: async (request, lower) => {
      const [answer, { maps, errors }] = await Promise.all([
        base.provide(request, lower),
        askAll(parts, request),
      ]);
      return changed(answer, (pillar) => joined([pillar, ...maps], errors, parts));
    },
    ...(compile === undefined ? {} : { compile }),
  };
}

function withExtBelow(base: PillarSource, parts: ExtPillarParts): PillarSource {
  const compile = base.compile?.bind(base);
  return {
    provide: async (request) => {
      const { maps, errors } = await askAll(parts, request);
      const lower = mergeAll(maps, parts);
      const answer = await base.provide(request, lower);
      return changed(answer, (pillar) => joined([lower, pillar], errors, parts));
    },
    ...(compile === undefined
      ? {}
      : {
          compile: async (request) =>
            compile(request, mergeAll((await askAll(parts, request)).maps, parts)),
        }),
  };
}

interface Layers {
  readonly maps: readonly PillarMap[];
  readonly errors: readonly string[];
}

async function askAll({ sources, log }: ExtPillarParts, request: PillarRequest): Promise<Layers> {
  const { id, saltenv, pillarenv } = request;
  const errors: string[] = [];
  const given = await Promise.all(
    sources.map(async (source) => {
      try {
        return await source.provide({ id, saltenv, pillarenv });
      } catch (err) {
        log.error({ minion: id, source: source.name, err }, 'external pillar failed');
        errors.push(`Failed to load ext_pillar ${source.name}. Please see master log for details.`);
        return undefined;
      }
    }),
  );
  return { maps: given.map((map) => fromWire(map ?? {})).filter(isPillarMap), errors };
}

function changed(answer: PillarAnswer, change: (pillar: PillarMap) => FactMap): PillarAnswer {
  const pillar = change(asMap(answer.pillar));
  const isSame = answer.proven === answer.pillar;
  return { pillar, proven: isSame ? pillar : change(asMap(answer.proven)) };
}

/** @param errors put behind those that are there */
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
