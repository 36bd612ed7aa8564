import type { MinionTest, Reach } from '#acl';
import {
  type CompiledTarget,
  compileLinearPattern,
  compileRightTarget,
  compileTarget,
  compileTargetInSteps,
  type MinionFacts,
  type MinionResources,
  type Nodegroups,
  type TargetCandidate,
  type TargetExpression,
} from '#minion-protocol';
import { storedWork, userWork, WorkBudget, WorkLimitExceeded } from '#runtime';
import {
  type AddressedMinions,
  type AuditRequester,
  MasterError,
  type PlannedMinion,
  type TargetPlan,
  type TargetRequest,
  workBudgetOf,
} from '../api/index.ts';
import { badTarget, parseTarget, parseUnexpanded, requireNodegroups } from '../arguments/index.ts';
import { SlowPatternRunner, SlowPatterns } from './slow-patterns.ts';

/**
 * Result of resolving a target: the minions with accepted keys that it matches, and details [WIRE
 * 12.2].
 */
export interface ResolvedTarget extends AddressedMinions {
  /** Target in the form in which it is published to minions. */
  readonly target: TargetExpression;
  /**
   * Minions in `minions` for which it is uncertain whether they match the target, because the
   * master does not know their grains or pillar.
   */
  readonly unknown: readonly string[];
  /**
   * Ids of the matched resources, by minion id. A minion in this map sends one return for each of
   * these resources, and no return of its own.
   */
  readonly resources: ReadonlyMap<string, ReadonlySet<string>>;
  /** Reason why the target is invalid. An invalid target matches no minion. */
  readonly problem: string | undefined;
}

export interface TargetResolverOptions {
  readonly acceptedIds: () => readonly string[];
  readonly isAccepted: (id: string) => boolean;
  readonly factsOf: (id: string) => MinionFacts;
  /**
   * Returns the facts of a minion for decisions about rights. The pillar in these facts does not
   * depend on the grains that the minion itself reports. Default: `factsOf`.
   */
  readonly rightsOf?: (id: string) => MinionFacts;
  /** Returns the resources that a minion manages. Default: none. */
  readonly resourcesOf?: (id: string) => MinionResources | undefined;
  /**
   * `minion_data_cache`: whether the master stores grains and pillar. If it is false, targets also
   * include all minions whose match is uncertain.
   */
  readonly isDataCached: boolean;
  readonly nodegroups: Nodegroups;
  /** Runner for regular expressions whose running time has no limit. Default: a new one. */
  readonly slowPatterns?: SlowPatternRunner;
}

/** Options of {@link TargetResolver.resolve}. */
export interface ResolveOptions {
  /**
   * Whether a minion with unknown grains or pillar matches. Use true for publishing, and false for
   * rights and the mine. Default: true.
   */
  readonly greedy?: boolean;
  /**
   * Requester of the call that contains the target. The number of waiting calls with slow regular
   * expressions is limited per requester. Default: the operator.
   */
  readonly by?: AuditRequester | undefined;
}

/**
 * Options for compiling the targets of users with limited rights. Conditions on pillar must equal
 * the whole value, because patterns could reveal it piece by piece.
 */
const exact = { pillar: 'exact' } as const;

/**
 * Rights of a user that limit the targets of this user: the minions that a target may match, and
 * the minions whose pillar a target may use.
 */
export type TargetReach = Pick<Reach, 'covers' | 'includes' | 'showsPillar'>;

/**
 * Set of permitted minions (reach) that includes all minions, with all of their known grains and
 * pillar.
 */
export const everyone: TargetReach = {
  includes: () => true,
  showsPillar: () => true,
  covers: () => true,
};

/** Estimated work of deciding whether a subject may act on a minion, in steps of a `WorkBudget`. */
const stepsOfReach = 20;

interface Matched {
  readonly target: TargetExpression;
  readonly compiled: CompiledTarget;
  readonly sure: readonly string[];
  readonly unknown: readonly string[];
  readonly missing: readonly string[];
  readonly resources: ReadonlyMap<string, ReadonlySet<string>>;
}

/**
 * Resolves targets to minions. The result is an estimate, because each minion itself decides
 * whether it matches the target.
 */
export class TargetResolver {
  readonly #options: TargetResolverOptions;
  #nodegroups: Nodegroups;
  readonly #slowPatterns: SlowPatternRunner;

  constructor(options: TargetResolverOptions) {
    this.#options = options;
    this.#nodegroups = options.nodegroups;
    this.#slowPatterns = options.slowPatterns ?? new SlowPatternRunner();
  }

  /** Replaces the nodegroups. Later targets use the new ones. */
  useNodegroups(nodegroups: Nodegroups): void {
    this.#nodegroups = nodegroups;
  }

  /**
   * Checks that a target names only defined nodegroups, as Salt's clients do.
   * @throws MasterError ERR_NODEGROUP_UNKNOWN
   */
  requireNodegroups(request: TargetRequest): void {
    requireNodegroups(request, this.#nodegroups);
  }

  /**
   * Resolves a target.
   * @throws MasterError ERR_BAD_TGT; WorkLimitExceeded
   */
  async resolve(
    request: TargetRequest,
    { greedy = true, by }: ResolveOptions = {},
  ): Promise<ResolvedTarget> {
    return this.#resolve(request, greedy, workBudgetOf(by));
  }

  async #resolve(
    request: TargetRequest,
    greedy: boolean,
    budget: WorkBudget,
  ): Promise<ResolvedTarget> {
    const matched = await this.#match(request, budget);
    const { target, compiled, sure, unknown, missing, resources } = matched;
    const { problem } = compiled;
    const common = { target, missing, resources, problem, isNarrowed: false };
    return greedy
      ? { ...common, minions: [...sure, ...unknown].sort(), unknown }
      : { ...common, minions: sure, unknown: [] };
  }

  /**
   * Resolves a target to the minions that certainly match. An invalid expression is an error here,
   * while {@link resolve} reports it in `problem`.
   * @param budget - work budget of the request that contains the target
   * @throws MasterError ERR_BAD_TGT; WorkLimitExceeded
   */
  async resolveCertain(
    request: TargetRequest,
    budget: WorkBudget = new WorkBudget(userWork),
  ): Promise<AddressedMinions> {
    const { minions, missing, isNarrowed, problem } = await this.#resolve(request, false, budget);
    if (problem !== undefined) throw badTarget(problem);
    return { minions, missing, isNarrowed };
  }

  /**
   * Resolves the target of a user with limited rights. The result contains those minions in `reach`
   * that certainly match. Minions outside `reach` are not examined, so that neither the result nor
   * its duration reveals anything about them. Pillar values are compared only for equality, not
   * with patterns. Regular expressions without a limit of running time are rejected. An undefined
   * nodegroup has no minions. Ids that the target lists are reported as missing if they have no
   * accepted key or are outside `reach`.
   * @param reach - minions that the user's rights cover
   * @param budget - work budget of the request that contains the target
   * @throws MasterError ERR_BAD_TGT; WorkLimitExceeded
   */
  async resolveWithin(
    request: TargetRequest,
    reach: TargetReach,
    budget: WorkBudget = new WorkBudget(userWork),
  ): Promise<AddressedMinions> {
    const compiled = await this.#compileExact(request, reach === everyone, budget);
    return this.#within(compiled, request, reach, this.#options.factsOf, budget);
  }

  /**
   * Compiles a target that one request evaluates several times, each time for another set of
   * permitted minions (a reach). The returned function returns the minions of a reach that
   * certainly match, as {@link resolveWithin} does. It stores its result for each minion, so that
   * later calls do not test the minion again.
   * @param isEveryone - whether each reach is {@link everyone}
   * @param budget - work budget of the request that contains the target
   * @throws MasterError ERR_BAD_TGT; WorkLimitExceeded
   */
  async compileWithin(
    request: TargetRequest,
    isEveryone: boolean,
    budget: WorkBudget,
  ): Promise<(reach: Pick<TargetReach, 'includes' | 'showsPillar'>) => Promise<string[]>> {
    const { acceptedIds, factsOf } = this.#options;
    const compiled = await this.#compileExact(request, isEveryone, budget);
    const verdicts = { shown: new Map<string, boolean>(), hidden: new Map<string, boolean>() };
    return async (reach) => {
      const sources = this.#shownBy(reach, factsOf);
      const minions: string[] = [];
      for (const id of acceptedIds()) {
        budget.addToSlice(stepsOfReach);
        if (budget.isSliceOver) await budget.giveWay();
        if (!reach.includes(id)) continue;
        const known = reach.showsPillar(id) ? verdicts.shown : verdicts.hidden;
        const isMatch = known.get(id) ?? compiled.test(new LazyCandidate(id, sources)) === 'yes';
        known.set(id, isMatch);
        if (isMatch) minions.push(id);
      }
      return minions;
    };
  }

  /**
   * Resolves a target to the minions that certainly match. All minions are examined. As in
   * {@link resolveWithin}, pillar values are compared only for equality, and regular expressions
   * without a limit of running time are rejected. An invalid target is an error.
   * @param budget - work budget of the request that contains the target
   * @throws MasterError ERR_BAD_TGT; WorkLimitExceeded
   */
  async resolveExact(
    request: TargetRequest,
    budget: WorkBudget = new WorkBudget(userWork),
  ): Promise<AddressedMinions> {
    const compiled = await this.#compileExact(request, true, budget);
    if (compiled.problem !== undefined) throw badTarget(compiled.problem);
    return this.#within(compiled, request, everyone, this.#options.factsOf, budget);
  }

  /**
   * Resolves a target of a job that sends secrets. The target must use neither grains nor pillar
   * that depends on grains, so that a minion cannot match it with false claims.
   * @param budget - work budget of the request that contains the target
   * @throws MasterError ERR_BAD_TGT, also if the target uses a grain; WorkLimitExceeded
   */
  async resolveProven(
    request: TargetRequest,
    reach: TargetReach,
    budget: WorkBudget = new WorkBudget(userWork),
  ): Promise<AddressedMinions> {
    const compiled = await this.#compileExact(request, reach === everyone, budget, isProvable);
    if (compiled.problem !== undefined) throw badTarget(compiled.problem);
    refuseTerm(
      compiled,
      ({ isSelfReported }) => isSelfReported,
      'uses grains, which a minion can set freely',
    );
    refuseTerm(compiled, ({ isPillarPattern }) => isPillarPattern, 'is a pattern on pillar');
    const { factsOf, rightsOf = factsOf } = this.#options;
    return this.#within(compiled, request, reach, rightsOf, budget);
  }

  /**
   * Compiles a target for a requester with limited rights.
   * @param isEveryone - whether the requester's rights cover all minions ({@link everyone})
   * @param isUsable - returns whether the target may use a nodegroup. Other nodegroups match no
   * minion
   */
  async #compileExact(
    request: TargetRequest,
    isEveryone: boolean,
    meter: WorkBudget,
    isUsable: (group: CompiledTarget) => boolean = () => true,
  ): Promise<CompiledTarget> {
    const given = { ...exact, meter };
    const inSteps = (
      target: TargetExpression,
      options: Parameters<typeof compileTarget>[2] = given,
    ): Promise<CompiledTarget> =>
      inSlices(compileTargetInSteps(target, compileLinearPattern, options), meter);
    const nodegroups = this.#nodegroups;
    if (isEveryone) return inSteps(parseTarget(request, nodegroups));
    const compileGroup = (target: TargetExpression): CompiledTarget =>
      compileTarget(target, compileLinearPattern, given);
    const groups = new Map<string, CompiledTarget | undefined>();
    const groupOf = (name: string): CompiledTarget | undefined => {
      if (!groups.has(name)) groups.set(name, tryToCompileGroup(name, nodegroups, compileGroup));
      const group = groups.get(name);
      return group !== undefined && isUsable(group) ? group : undefined;
    };
    return inSteps(parseUnexpanded(request), { ...given, groupOf });
  }

  async #within(
    compiled: CompiledTarget,
    request: TargetRequest,
    reach: TargetReach,
    factsOf: (id: string) => MinionFacts,
    budget: WorkBudget,
  ): Promise<AddressedMinions> {
    const sources = this.#shownBy(reach, factsOf);
    const own = this.#options.acceptedIds().filter(reach.includes);
    const minions: string[] = [];
    for (const id of own) {
      if (budget.isSliceOver) await budget.giveWay();
      if (compiled.test(new LazyCandidate(id, sources)) === 'yes') minions.push(id);
    }
    const missing = missingFrom(own, compiled);
    const isNarrowed = !reach.covers('*') && mayMeanOthers(compiled, request, reach);
    return { minions, missing, isNarrowed };
  }

  /**
   * Whether a right that is granted to this target applies to a minion. See
   * {@link CompiledTarget.isEntitled}. A target that is invalid or too expensive to evaluate grants
   * no rights.
   */
  entitles(request: TargetRequest, minionId: string, budget: WorkBudget): boolean {
    return this.#evaluateStored(
      request,
      (target) => target.isEntitled(this.#rightful(minionId)),
      budget,
    );
  }

  /**
   * Whether a target certainly matches this minion. Conditions on grains use the values that the
   * minion claims. A target that is invalid or too expensive to evaluate does not match.
   */
  matches(request: TargetRequest, minionId: string, budget: WorkBudget): boolean {
    return this.#evaluateStored(
      request,
      (target) => target.test(this.#candidate(minionId)) === 'yes',
      budget,
    );
  }

  /**
   * Whether a target may be stored. This is so if compiling the target stays within the work limit
   * of stored targets. An invalid target may be stored too, because it matches no minion.
   * @param budget - work budget of the request, which counts the work of all of its targets
   * @throws WorkLimitExceeded if the targets of the request exceed its budget
   */
  isStorable(request: TargetRequest, budget: WorkBudget): boolean {
    const stored = new WorkBudget(storedWork);
    const isWithinLimit = this.#isReadWithin(request, stored);
    budget.spend('the targets of one request', stored.steps);
    return isWithinLimit;
  }

  #isReadWithin(request: TargetRequest, meter: WorkBudget): boolean {
    try {
      this.#tryToRead(request, meter);
      return true;
    } catch (error) {
      if (error instanceof WorkLimitExceeded) return false;
      throw error;
    }
  }

  /**
   * Compiles and evaluates a stored target. This work has its own budget, so that a stored target
   * cannot exhaust the budget of the request that reads the target. Returns `false` if the target
   * is invalid or exceeds its own budget.
   */
  #evaluateStored(
    request: TargetRequest,
    evaluate: (target: CompiledTarget) => boolean,
    budget: WorkBudget,
  ): boolean {
    const stored = new WorkBudget(storedWork);
    try {
      const compiled = this.#tryToRead(request, stored);
      return compiled !== undefined && evaluate(compiled);
    } catch (error) {
      if (error instanceof WorkLimitExceeded) return false;
      throw error;
    } finally {
      budget.addToSlice(stored.steps);
    }
  }

  /**
   * Whether a right that is limited to this target covers every one of these minions. The result is
   * `false` if one of them has no accepted key. See {@link entitles}.
   */
  entitlesAll(request: TargetRequest, minions: readonly string[]): boolean {
    const compiled = this.#tryToRead(request, new WorkBudget(userWork));
    const { isAccepted } = this.#options;
    return minions.every(
      (id) => isAccepted(id) && compiled?.isEntitled(this.#rightful(id)) === true,
    );
  }

  /**
   * Compiles the target of a policy rule. The functions in the result use the grains and pillar
   * that the minion has when they are called.
   * @throws SyntaxError
   */
  compileRight(request: TargetRequest, nodegroups: Nodegroups): MinionTest {
    const compiled = compileRightTarget(request, nodegroups);
    return {
      isEntitled: (id) => this.#options.isAccepted(id) && compiled.isEntitled(this.#rightful(id)),
      claims: (id) => compiled.test(this.#candidate(id)) === 'yes',
      mayMean: (id) => compiled.test(this.#candidate(id)) !== 'no',
      restsOnGrains: compiled.restsOnGrains,
    };
  }

  #tryToRead(request: TargetRequest, meter: WorkBudget): CompiledTarget | undefined {
    try {
      const target = parseTarget(request, this.#nodegroups);
      return readTarget(() => compileTarget(target, compileLinearPattern, { meter }));
    } catch (error) {
      if (error instanceof MasterError) return undefined;
      throw error;
    }
  }

  /**
   * Resolves a target as {@link resolve} does, and explains for each minion why it is in the
   * result.
   * @throws MasterError ERR_BAD_TGT
   */
  async plan(request: TargetRequest): Promise<TargetPlan> {
    const { target, compiled, sure, unknown, missing } = await this.#match(
      request,
      new WorkBudget(userWork),
    );
    const { tgt, tgtType } = target;
    const whole = typeof tgt === 'string' ? tgt : tgt.join(tgtType === 'list' ? ',' : ' ');
    const minions: PlannedMinion[] = [
      ...sure.map((id) => {
        const met = conditionsMet(compiled, this.#candidate(id));
        return { id, reason: 'matched', by: met.length === 0 ? [whole] : met } as const;
      }),
      ...unknown.map((id) => ({ id, reason: 'facts-unknown' }) as const),
      ...missing.map((id) => ({ id, reason: 'missing' }) as const),
    ];
    const { problem } = compiled;
    return { tgt, tgtType, minions, ...(problem === undefined ? {} : { problem }) };
  }

  async #match(request: TargetRequest, budget: WorkBudget): Promise<Matched> {
    const target = parseTarget(request, this.#nodegroups);
    const accepted = this.#options.acceptedIds();
    const compiled = await this.#compile(target, accepted, budget);
    const sure: string[] = [];
    const unknown: string[] = [];
    const resources = new Map<string, ReadonlySet<string>>();
    for (const id of accepted) {
      if (budget.isSliceOver) await budget.giveWay();
      const candidate = this.#candidate(id);
      const meant = compiled.resourcesMeant(candidate);
      if (meant.size > 0) resources.set(id, meant);
      const verdict = meant.size > 0 ? 'yes' : compiled.test(candidate);
      if (verdict === 'yes') sure.push(id);
      else if (verdict === 'unknown' && this.#mayMatch(compiled, candidate)) unknown.push(id);
    }
    const missing = missingFrom(accepted, compiled);
    return { target, compiled, sure, unknown, missing, resources };
  }

  /**
   * Whether a target includes a minion for which some of the tested grains or pillar are unknown.
   * As in Salt, a condition on unknown data counts as true. A `not` before such a condition
   * therefore excludes the minion. If the master stores no grains and pillar (`minion_data_cache`
   * is off), the result is always true.
   */
  #mayMatch(compiled: CompiledTarget, candidate: TargetCandidate): boolean {
    return !this.#options.isDataCached || compiled.isPossible(candidate);
  }

  async #compile(
    target: TargetExpression,
    accepted: readonly string[],
    budget: WorkBudget,
  ): Promise<CompiledTarget> {
    const slow = new SlowPatterns();
    const steps = compileTargetInSteps(target, slow.compile, { meter: budget });
    const compiled = await inSlices(steps, budget);
    if (!slow.isNeeded) return compiled;
    for (const id of accepted) {
      if (budget.isSliceOver) await budget.giveWay();
      // All conditions are tested, because the slow patterns of each must be collected even if
      // another condition decides the result.
      for (const term of compiled.terms) term.test(this.#candidate(id));
    }
    await slow.settle(this.#slowPatterns, budget.owner ?? '');
    return compiled;
  }

  #rightful(id: string): TargetCandidate {
    const { factsOf, rightsOf = factsOf } = this.#options;
    return new LazyCandidate(id, { factsOf: rightsOf });
  }

  /**
   * Returns the sources of minions' facts for testing a target of a user. If the user has no right
   * to query the pillar of a minion, the sources do not return this pillar.
   */
  #shownBy(
    { showsPillar }: Pick<TargetReach, 'showsPillar'>,
    factsOf: (id: string) => MinionFacts,
  ): ConstructorParameters<typeof LazyCandidate>[1] {
    // Conditions on unknown facts do not match, because the result must be certain.
    const shownOf = (id: string): MinionFacts => ({
      grains: factsOf(id).grains,
      pillar: showsPillar(id) ? factsOf(id).pillar : undefined,
    });
    const { resourcesOf } = this.#options;
    return { factsOf: shownOf, ...(resourcesOf === undefined ? {} : { resourcesOf }) };
  }

  #candidate(id: string): TargetCandidate {
    return new LazyCandidate(id, this.#options);
  }
}

/**
 * Minion that a target is tested on. Its grains, pillar and resources are looked up only when a
 * condition needs them. Grains and pillar are looked up only once.
 */
class LazyCandidate implements TargetCandidate {
  readonly id: string;
  readonly #sources: Pick<TargetResolverOptions, 'factsOf' | 'resourcesOf'>;
  #facts: MinionFacts | undefined;

  constructor(id: string, sources: Pick<TargetResolverOptions, 'factsOf' | 'resourcesOf'>) {
    this.id = id;
    this.#sources = sources;
  }

  get facts(): MinionFacts {
    this.#facts ??= this.#sources.factsOf(this.id);
    return this.#facts;
  }

  get resources(): MinionResources | undefined {
    return this.#sources.resourcesOf?.(this.id);
  }
}

/**
 * Compiles a nodegroup. Returns `undefined` if the nodegroup is undefined or invalid, so that a
 * user's target cannot reveal which nodegroups exist.
 */
function tryToCompileGroup(
  name: string,
  nodegroups: Nodegroups,
  compile: (target: TargetExpression) => CompiledTarget,
): CompiledTarget | undefined {
  try {
    return compile(parseTarget({ tgt: name, tgtType: 'nodegroup' }, nodegroups));
  } catch (error) {
    if (error instanceof MasterError || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function isProvable({ terms }: CompiledTarget): boolean {
  return !terms.some(({ isSelfReported, isPillarPattern }) => isSelfReported || isPillarPattern);
}

function refuseTerm(
  { terms }: CompiledTarget,
  isRefused: (term: CompiledTarget['terms'][number]) => boolean,
  reason: string,
): void {
  const found = terms.find(isRefused);
  if (found === undefined) return;
  throw badTarget(
    `"${found.text}" ${reason}; a target that receives secrets must name minions by id, by a ` +
      'nodegroup without grains, or by a pillar value',
  );
}

function readTarget<T>(compile: () => T): T {
  try {
    return compile();
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw badTarget(`the target is invalid: ${error.message}`, { cause: error });
  }
}

/**
 * Compiles a target in short slices of work, and lets other work run in between.
 * @throws MasterError ERR_BAD_TGT; WorkLimitExceeded
 */
async function inSlices(
  steps: Generator<undefined, CompiledTarget, void>,
  budget: WorkBudget,
): Promise<CompiledTarget> {
  for (;;) {
    const { done, value } = readTarget(() => steps.next());
    if (done === true) return value;
    if (budget.isSliceOver) await budget.giveWay();
  }
}

function conditionsMet(compiled: CompiledTarget, candidate: TargetCandidate): string[] {
  return compiled.terms
    .filter((term) => term.test(candidate) === 'yes')
    .map(({ text, ids }) => (ids.length > 0 ? candidate.id : text));
}

function missingFrom(accepted: readonly string[], { terms }: CompiledTarget): string[] {
  const listed = new Set(terms.flatMap((term) => term.ids));
  for (const id of listed.size === 0 ? [] : accepted) listed.delete(id);
  return [...listed];
}

/**
 * Whether a target can match minions outside `reach`, the minions that the requester's rules
 * permit. Compares only the texts of the target and of the rules, so the result reveals nothing
 * about those minions.
 */
function mayMeanOthers(
  { terms }: CompiledTarget,
  { tgt, tgtType = 'glob' }: TargetRequest,
  { covers, includes }: TargetReach,
): boolean {
  if (terms.every(({ names }) => names?.every(includes))) return false;
  const text = typeof tgt === 'string' ? tgt : tgt.join(' ');
  const prefix = { glob: '', compound: '', nodegroup: 'N@', pcre: 'E@' }[tgtType];
  return prefix === undefined || !covers(`${prefix}${text}`);
}
