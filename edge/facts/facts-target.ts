/**
 * Evaluates compound targets of orders over the facts that sites have reported. The facts may be
 * old, so the result states their age.
 */

import Type, { type Static } from 'typebox';
import { TargetResolver } from '#master';
import type { FactSource, WireMap } from '#minion-protocol';
import { userWork, WorkBudget } from '#runtime';
import { EdgeError } from '../errors.ts';
import type { PackedSiteMinion } from './centre-facts.ts';
import { reportedGrains } from './reported-grains.ts';

/** Maximum number of names in each list of a {@link FactsBasis}. */
const maxListed = 100;

/** Maximum number of steps that the decoding of one byte of grains takes. */
const stepsPerByte = 4;

const Count = Type.Integer({ minimum: 0 });
const Time = Type.Integer({ minimum: 0 });

/** Number of names, and the first {@link maxListed} names. */
const Names = Type.Object({ count: Count, names: Type.Array(Type.String()) });

/** Schema of {@link FactsBasis}. Times are in milliseconds since 1970, by the clocks of the sites. */
export const FactsBasisSchema = Type.Object({
  target: Type.String(),
  /**
   * Number of minions whose facts were compared with the target: all minions of the named sites.
   */
  examined: Count,
  /** Times of the oldest and of the latest of these facts. */
  oldestAt: Time,
  latestAt: Time,
  matched: Count,
  /** Time of the oldest facts of a minion that matches. */
  oldestMatchedAt: Time,
  /** Number of matching minions that were not connected to their site. */
  absent: Count,
  /** Minions with unknown grains. They match no condition on grains. */
  unknown: Names,
  /** Names in the target that none of the named sites has reported. */
  missing: Names,
  /** Named sites without a matching minion. They do not get the order. */
  sitesWithoutMatch: Names,
});

/** Facts that selected the targets of an order, with the age of these facts. */
export type FactsBasis = Readonly<Static<typeof FactsBasisSchema>>;

export interface FactsTargetOptions {
  /** Compound target. */
  readonly target: string;
  /** Sites that the order names. The caller may issue the order to each of them. */
  readonly sites: readonly string[];
  readonly minions: ReadonlyMap<string, PackedSiteMinion>;
  readonly nodegroups: ConstructorParameters<typeof TargetResolver>[0]['nodegroups'];
}

/** Result of {@link resolveFacts}. */
export interface ResolvedFacts {
  /** Ids of the matching minions, by site. */
  readonly bySite: ReadonlyMap<string, readonly string[]>;
  readonly basis: FactsBasis;
}

/**
 * Finds the minions that certainly match a compound target. Only minions of the named sites are
 * examined.
 * @throws EdgeError ERR_ORDER_INVALID; MasterError ERR_BAD_TGT; WorkLimitExceeded
 */
export async function resolveFacts(options: FactsTargetOptions): Promise<ResolvedFacts> {
  const { target, sites, minions } = options;
  const found = await matchingOf(options);
  const bySite = Map.groupBy(found.minions, (id) => minions.get(id)?.site ?? '');
  const all = [...minions.values()];
  const matched = found.minions.flatMap((id) => minions.get(id) ?? []);
  const unknown = [...minions].filter(([, it]) => !it.hasGrains).map(([id]) => id);
  const times = all.map(({ ms }) => ms);
  const basis: FactsBasis = {
    target,
    examined: all.length,
    oldestAt: least(times),
    latestAt: times.reduce((a, b) => Math.max(a, b), 0),
    matched: matched.length,
    oldestMatchedAt: least(matched.map(({ ms }) => ms)),
    absent: matched.filter(({ isPresent }) => !isPresent).length,
    unknown: listed(unknown),
    missing: listed(found.missing),
    sitesWithoutMatch: listed(sites.filter((site) => !bySite.has(site))),
  };
  if (matched.length > 0) return { bySite, basis };
  throw new EdgeError('ERR_ORDER_INVALID', `no minion matches: ${describeBasis(basis)}`);
}

/** Describes the facts as text: their number and their age. */
export function describeBasis(basis: FactsBasis): string {
  const { examined, matched, absent, unknown, missing, sitesWithoutMatch } = basis;
  const at = (ms: number): string => new Date(ms).toISOString();
  const names = (it: FactsBasis['missing']): string =>
    it.count > it.names.length ? `${it.names.join(', ')}, …` : it.names.join(', ');
  return [
    `${matched} of ${examined} minions match`,
    ...(examined === 0 ? [] : [`facts from ${at(basis.oldestAt)} to ${at(basis.latestAt)}`]),
    ...(absent === 0 ? [] : [`${absent} of them were not connected`]),
    ...(unknown.count === 0 ? [] : [`unknown grains: ${names(unknown)}`]),
    ...(missing.count === 0 ? [] : [`not reported by any site: ${names(missing)}`]),
    ...(sitesWithoutMatch.count === 0 ? [] : [`no match at: ${names(sitesWithoutMatch)}`]),
  ].join('; ');
}

/** @throws EdgeError ERR_ORDER_INVALID; MasterError ERR_BAD_TGT; WorkLimitExceeded */
async function matchingOf({
  target,
  minions,
  nodegroups,
}: FactsTargetOptions): Promise<Awaited<ReturnType<TargetResolver['resolveExact']>>> {
  const read = new Set<string>();
  let usesPillar = false;
  const pillar: FactSource = {
    get: () => {
      usesPillar = true;
      return undefined;
    },
    whole: () => ({}),
  };
  const budget = new WorkBudget(userWork);
  const resolver = new TargetResolver({
    acceptedIds: () => [...minions.keys()],
    isAccepted: (id) => minions.has(id),
    factsOf: (id) => {
      const minion = minions.get(id);
      if (minion === undefined || !minion.hasGrains) return { grains: undefined, pillar };
      const grains = (): WireMap => {
        budget.addToSlice(stepsPerByte * minion.bytes);
        return minion.grains();
      };
      return { grains: noting(grains, read), pillar };
    },
    isDataCached: true,
    nodegroups,
  });
  const found = await resolver.resolveExact({ tgt: target, tgtType: 'compound' }, budget);
  const [grain] = [...read].filter((name) => !reportedGrains.includes(name));
  if (grain !== undefined) {
    const known = reportedGrains.join(', ');
    throw invalid(`sites do not report the grain ${grain}, only ${known}`);
  }
  if (usesPillar) throw invalid('sites do not report pillar');
  return found;
}

/** Decodes grains when they are read, and notes the names that are read. */
function noting(grains: () => WireMap, read: Set<string>): FactSource {
  let decoded: WireMap | undefined;
  const whole = (): WireMap => {
    decoded ??= grains();
    return decoded;
  };
  return {
    get: (name) => {
      read.add(name);
      const map = whole();
      return Object.hasOwn(map, name) ? map[name] : undefined;
    },
    whole,
  };
}

function invalid(problem: string): EdgeError {
  return new EdgeError(
    'ERR_ORDER_INVALID',
    `facts target: ${problem}; use a target at the sites (-T compound)`,
  );
}

function least(times: readonly number[]): number {
  return times.length === 0 ? 0 : times.reduce((a, b) => Math.min(a, b));
}

function listed(names: readonly string[]): FactsBasis['missing'] {
  return { count: names.length, names: names.slice(0, maxListed) };
}
