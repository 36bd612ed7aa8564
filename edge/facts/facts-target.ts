/**
 * Evaluates compound targets of orders over the facts that sites have reported. The facts may be
 * old, so the result states their age.
 */

import Type, { type Static } from 'typebox';
import { TargetResolver } from '#master';
import type { FactSource, WireMap } from '#minion-protocol';
import type { WorkBudget } from '#runtime';
import { EdgeError } from '../errors.ts';
import type { PackedSiteMinion } from './centre-facts.ts';
import { reportedGrains } from './reported-grains.ts';

/** Maximum number of names in each list of a {@link FactsBasis}. */
const maxListed = 100;

/**
 * Steps of the {@link WorkBudget} that are counted for each byte of packed grains. Decoding a byte
 * takes at most this number of steps.
 */
const stepsPerByte = 4;

const Count = Type.Integer({ minimum: 0 });
const Time = Type.Integer({ minimum: 0 });

/**
 * List of names that may be cut short: `count` is the number of all names, and `names` has at most
 * {@link maxListed} of them.
 */
const Names = Type.Object({ count: Count, names: Type.Array(Type.String()) });

/** Schema of {@link FactsBasis}. Times are in milliseconds since 1970, by the clocks of the sites. */
export const FactsBasisSchema = Type.Object({
  target: Type.String(),
  /**
   * Number of minions whose facts were compared with the target: all minions of the named sites.
   */
  examined: Count,
  /**
   * Time of the oldest facts that were compared. `latestAt` is the time of the latest. Both are 0
   * if no minion was examined.
   */
  oldestAt: Time,
  latestAt: Time,
  matched: Count,
  /** Time of the oldest facts among the matching minions. 0 if no minion matches. */
  oldestMatchedAt: Time,
  /** Number of matching minions that were not connected to their site. */
  absent: Count,
  /** Minions whose grains are unknown. No condition on grains matches these minions. */
  unknown: Names,
  /** Minion ids in the target that none of the named sites has reported. */
  missing: Names,
  /** Named sites without a matching minion. They do not get the order. */
  sitesWithoutMatch: Names,
});

/** Summary of the facts by which the minions for an order were selected, and of their age. */
export type FactsBasis = Readonly<Static<typeof FactsBasisSchema>>;

export interface FactsTargetOptions {
  /** Target in the syntax of compound matching. */
  readonly target: string;
  /**
   * Names of the sites to which the order is addressed. The caller of the function has checked that
   * the user may send orders to each of them.
   */
  readonly sites: readonly string[];
  readonly minions: ReadonlyMap<string, PackedSiteMinion>;
  readonly nodegroups: ConstructorParameters<typeof TargetResolver>[0]['nodegroups'];
  /** Work budget of the request that contains the target. */
  readonly budget: WorkBudget;
}

/** Result of {@link resolveFacts}. */
export interface ResolvedFacts {
  /** Ids of the matching minions, by site. */
  readonly bySite: ReadonlyMap<string, readonly string[]>;
  readonly basis: FactsBasis;
}

/**
 * Finds the minions of the named sites that match a compound target. A minion with unknown grains
 * matches no condition on grains.
 * @throws EdgeError ERR_ORDER_INVALID if no minion matches, or the target uses data that sites do
 * not report
 * @throws MasterError ERR_BAD_TGT if the target is malformed
 * @throws WorkLimitExceeded
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

/**
 * Describes as text which facts the target was matched with: how many minions match, how old the
 * facts are, and which names are unknown.
 */
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

/**
 * Returns the minions that match the target, and the ids in the target that no site has reported.
 * @throws EdgeError ERR_ORDER_INVALID if the target uses pillar, or a grain that sites do not
 * report
 * @throws MasterError ERR_BAD_TGT if the target is malformed
 * @throws WorkLimitExceeded
 */
async function matchingOf({
  target,
  minions,
  nodegroups,
  budget,
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

/**
 * Returns a source of grains that decodes them at the first access. It adds the name of each
 * requested grain to `read`.
 */
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
