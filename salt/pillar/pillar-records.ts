import Type from 'typebox';
import { type FactMap, type PayloadLimits, packLocal, unpackLocal } from '#minion-protocol';
import { Bytes } from '#store';
import { GrainReads } from '../render/grains.ts';
import type { PillarAnswer } from '../render/pillar-source.ts';
import type { CacheDependencies } from '../render/reads.ts';

/** Schema of the stored dependencies of a cached pillar. */
export const StoredDependencies = Type.Object({
  /** Files that were read: environment, path and digest; `null` if the file did not exist. */
  files: Type.Array(
    Type.Tuple([Type.String(), Type.String(), Type.Union([Type.String(), Type.Null()])]),
  ),
  /** File lists that were read: environment and digest. */
  lists: Type.Array(Type.Tuple([Type.String(), Type.String()])),
  /** Grains that were read: name and value; `null` if the grain did not exist. */
  grains: Type.Array(Type.Tuple([Type.String(), Type.Union([Bytes, Type.Null()])])),
  whole: Type.Union([Bytes, Type.Null()]),
});

/** Schema of a stored pillar with its dependencies. */
export const StoredPillar = Type.Object({
  saltenv: Type.Union([Type.String(), Type.Null()]),
  pillarenv: Type.Union([Type.String(), Type.Null()]),
  lower: Type.String(),
  rules: Type.String(),
  from: StoredDependencies,
  pillar: Bytes,
  /**
   * Second version of the pillar, which was compiled without grains, in packed form. Absent if it
   * equals `pillar`.
   */
  proven: Type.Optional(Bytes),
});

export type StoredPillar = Type.Static<typeof StoredPillar>;

function packDependencies({ files, lists, grains }: CacheDependencies): StoredPillar['from'] {
  return {
    files: files.map(({ saltenv, path, digest }) => [saltenv, path, digest ?? null]),
    lists: lists.map(({ saltenv, digest }) => [saltenv, digest]),
    grains: Array.from(grains.values, ([name, value]) => [name, value]),
    whole: grains.whole ?? null,
  };
}

function unpackDependencies(from: StoredPillar['from']): CacheDependencies {
  const grains = new GrainReads();
  for (const [name, read] of from.grains) grains.values.set(name, read && Buffer.from(read));
  grains.whole = from.whole === null ? undefined : Buffer.from(from.whole);
  return {
    files: from.files.map(([saltenv, path, digest]) => ({
      saltenv,
      path,
      digest: digest ?? undefined,
    })),
    lists: from.lists.map(([saltenv, digest]) => ({ saltenv, digest })),
    grains,
  };
}

/** A packed pillar and its dependencies. The pillar is valid while these are unchanged. */
export interface CachedPillar {
  readonly madeFrom: CacheDependencies;
  /** Packed pillar. Unpacked objects would take about ten times the memory. */
  readonly pillar: Uint8Array;
  /**
   * Packed pillar that the minion would receive if the master did not know its grains. If it equals
   * `pillar`, both properties contain the same object.
   */
  readonly proven: Uint8Array;
}

/**
 * A cached pillar of one minion, with the environments, external pillar and options for which it
 * was compiled.
 */
export interface KeptPillar extends CachedPillar {
  readonly saltenv: string | undefined;
  readonly pillarenv: string | undefined;
  readonly lower: string;
  readonly rules: string;
}

/** Stored form of a {@link CachedPillar}. */
type StoredCached = Pick<StoredPillar, 'from' | 'pillar' | 'proven'>;

export function packCached({ madeFrom, pillar, proven }: CachedPillar): StoredCached {
  return {
    from: packDependencies(madeFrom),
    pillar,
    ...(proven === pillar ? {} : { proven }),
  };
}

export function unpackCached({ from, pillar, proven = pillar }: StoredCached): CachedPillar {
  return { madeFrom: unpackDependencies(from), pillar, proven };
}

/**
 * Packs both versions of a pillar: `pillar`, and `proven`, which does not depend on grains. If both
 * are the same object, it is packed once.
 */
export function packAnswer({
  pillar,
  proven,
}: PillarAnswer): Pick<CachedPillar, 'pillar' | 'proven'> {
  const packed = packLocal(pillar);
  return { pillar: packed, proven: proven === pillar ? packed : packLocal(proven) };
}

export function unpackAnswer({
  pillar: packed,
  proven,
}: Pick<CachedPillar, 'pillar' | 'proven'>): PillarAnswer {
  const pillar = unpack(packed);
  return { pillar, proven: proven === packed ? pillar : unpack(proven) };
}

/**
 * Limits for unpacking cached values. They are high, because the cache packed these values itself.
 */
export const keptLimits: PayloadLimits = {
  maxBytes: Number.POSITIVE_INFINITY,
  maxDepth: 1000,
  maxElements: Number.POSITIVE_INFINITY,
};

export function packKept({
  saltenv,
  pillarenv,
  lower,
  rules,
  ...cached
}: KeptPillar): StoredPillar {
  return {
    saltenv: saltenv ?? null,
    pillarenv: pillarenv ?? null,
    lower,
    rules,
    ...packCached(cached),
  };
}

export function unpackKept(stored: StoredPillar): KeptPillar {
  const { saltenv, pillarenv, lower, rules, ...cached } = stored;
  return {
    saltenv: saltenv ?? undefined,
    pillarenv: pillarenv ?? undefined,
    lower,
    rules,
    ...unpackCached(cached),
  };
}

function unpack(bytes: Uint8Array): FactMap {
  return unpackLocal(bytes, keptLimits) as FactMap; // packed from a FactMap above
}
