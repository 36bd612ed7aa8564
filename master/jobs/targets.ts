import type { MinionTest, Reach } from '#acl';
import {
  type CompiledTarget,
  compileLinearPattern,
  compileRightTarget,
  compileTarget,
  type MinionFacts,
  type MinionResources,
  type Nodegroups,
  type TargetCandidate,
  type TargetExpression,
} from '#minion-protocol';
import {
  type AddressedMinions,
  MasterError,
  type PlannedMinion,
  type TargetPlan,
  type TargetRequest,
} from '../api/index.ts';
import { badTarget, parseTarget, parseUnexpanded, requireNodegroups } from '../arguments/index.ts';
import { SlowPatternRunner, SlowPatterns } from './slow-patterns.ts';

/** Minions that a target means, among the accepted keys [WIRE 12.2]. */
export interface ResolvedTarget extends AddressedMinions {
  /** The target as it is published. */
  readonly target: TargetExpression;
  /** Those of `minions` that match only because their facts are not known. */
  readonly unknown: readonly string[];
  /** What these of `minions` return for, in place of themselves: ids of resources. */
  readonly resources: ReadonlyMap<string, ReadonlySet<string>>;
  /** Why the expression is broken, and therefore means nobody. */
  readonly problem: string | undefined;
}

export interface TargetResolverOptions {
  readonly acceptedIds: () => readonly string[];
  readonly isAccepted: (id: string) => boolean;
  readonly factsOf: (id: string) => MinionFacts;
  /** Those that rights may go by. Default: the same. */
  readonly rightsOf?: (id: string) => MinionFacts;
  /** What a minion manages besides itself. Default: nothing. */
  readonly resourcesOf?: (id: string) => MinionResources | undefined;
  /** `minion_data_cache`: without it, whatever depends on facts may match. */
  readonly isDataCached: boolean;
  readonly nodegroups: Nodegroups;
  /** Default: one of its own. */
  readonly slowPatterns?: SlowPatternRunner;
}

/** How {@link TargetResolver.resolve} counts minions whose facts are not known. */
export interface ResolveOptions {
  /**
   * True, for publishing: they may match, so they do. False, for rights and the mine: they do
   * not. Default true.
   */
  readonly greedy?: boolean;
}

/** How the target of somebody with limited rights is read. */
const exact = { pillar: 'exact' } as const;

/** Whom a target is evaluated over, and whose pillar it may ask for. */
export type TargetReach = Pick<Reach, 'covers' | 'includes' | 'showsPillar'>;

/** All minions, and whatever is known of them. */
export const everyone: TargetReach = {
  includes: () => true,
  showsPillar: () => true,
  covers: () => true,
};

interface Matched {
  readonly target: TargetExpression;
  readonly compiled: CompiledTarget;
  readonly sure: readonly string[];
  readonly unknown: readonly string[];
  readonly missing: readonly string[];
  readonly resources: ReadonlyMap<string, ReadonlySet<string>>;
}

/** Finds out who a target means. The minions have the last word: each matches for itself. */
export class TargetResolver {
  readonly #options: TargetResolverOptions;
  #nodegroups: Nodegroups;
  readonly #slowPatterns: SlowPatternRunner;

  constructor(options: TargetResolverOptions) {
    this.#options = options;
    this.#nodegroups = options.nodegroups;
    this.#slowPatterns = options.slowPatterns ?? new SlowPatternRunner();
  }

  /** Reads targets by other nodegroups from now on. */
  useNodegroups(nodegroups: Nodegroups): void {
    this.#nodegroups = nodegroups;
  }

  /**
   * Refuses a target that names a nodegroup which is not defined, as Salt's clients do.
   * @throws MasterError ERR_NODEGROUP_UNKNOWN
   */
  requireNodegroups(request: TargetRequest): void {
    requireNodegroups(request, this.#nodegroups);
  }

  /** @throws MasterError ERR_BAD_TGT */
  async resolve(
    request: TargetRequest,
    { greedy = true }: ResolveOptions = {},
  ): Promise<ResolvedTarget> {
    const { target, compiled, sure, unknown, missing, resources } = await this.#match(request);
    const { problem } = compiled;
    const common = { target, missing, resources, problem, isNarrowed: false };
    return greedy
      ? { ...common, minions: [...sure, ...unknown].sort(), unknown }
      : { ...common, minions: sure, unknown: [] };
  }

  /**
   * Resolves a target to the minions that match for certain.
   * @throws MasterError ERR_BAD_TGT, also for an expression that is broken
   */
  async resolveCertain(request: TargetRequest): Promise<AddressedMinions> {
    const { minions, missing, isNarrowed, problem } = await this.resolve(request, {
      greedy: false,
    });
    if (problem !== undefined) throw badTarget(problem);
    return { minions, missing, isNarrowed };
  }

  /**
   * Who the target of somebody with limited rights means: those of its reach that match for
   * certain. Nothing of any other minion is looked at, so that neither the answer nor the time that
   * it takes says anything of them. Conditions on pillar are equality, expressions that may not end
   * are not taken, and a nodegroup that is not defined is one without minions. Names that the target
   * lists are missing whether they have no accepted key or lie beyond the reach.
   * @throws MasterError ERR_BAD_TGT
   */
  resolveWithin(request: TargetRequest, reach: TargetReach): AddressedMinions {
    const compiled = this.#compileExact(request, reach);
    return this.#within(compiled, request, reach, this.#options.factsOf);
  }

  /**
   * The same where secrets follow the target: no minion may come by them by what it says of itself.
   * Grains are not asked for, nor pillar that follows from them.
   * @throws MasterError ERR_BAD_TGT, also for a target that mixes in a grain
   */
  resolveProven(request: TargetRequest, reach: TargetReach): AddressedMinions {
    const compiled = this.#compileExact(request, reach, isProvable);
    if (compiled.problem !== undefined) throw badTarget(compiled.problem);
    refuseTerm(
      compiled,
      ({ isSelfTold }) => isSelfTold,
      'goes by grains, and a minion can claim any',
    );
    refuseTerm(compiled, ({ isPillarPattern }) => isPillarPattern, 'is a pattern on pillar');
    const { factsOf, rightsOf = factsOf } = this.#options;
    return this.#within(compiled, request, reach, rightsOf);
  }

  /** @param isUsable whether a nodegroup means anybody */
  #compileExact(
    request: TargetRequest,
    reach: TargetReach,
    isUsable: (group: CompiledTarget) => boolean = () => true,
  ): CompiledTarget {
    const compile = (
      target: TargetExpression,
      options: Parameters<typeof compileTarget>[2] = {},
    ): CompiledTarget => compileTarget(target, compileLinearPattern, { ...exact, ...options });
    const nodegroups = this.#nodegroups;
    if (reach === everyone) return readTarget(() => compile(parseTarget(request, nodegroups)));
    const groups = new Map<string, CompiledTarget | undefined>();
    const groupOf = (name: string): CompiledTarget | undefined => {
      if (!groups.has(name)) groups.set(name, tryToCompileGroup(name, nodegroups, compile));
      const group = groups.get(name);
      return group !== undefined && isUsable(group) ? group : undefined;
    };
    return readTarget(() => compile(parseUnexpanded(request), { groupOf }));
  }

  #within(
    compiled: CompiledTarget,
    request: TargetRequest,
    reach: TargetReach,
    factsOf: (id: string) => MinionFacts,
  ): AddressedMinions {
    const { includes, showsPillar } = reach;
    // What nobody knows matches nothing.
    const shownOf = (id: string): MinionFacts => ({
      grains: factsOf(id).grains,
      pillar: showsPillar(id) ? factsOf(id).pillar : undefined,
    });
    const { acceptedIds, resourcesOf } = this.#options;
    const sources = { factsOf: shownOf, ...(resourcesOf === undefined ? {} : { resourcesOf }) };
    const own = acceptedIds().filter(includes);
    const minions = own.filter((id) => compiled.test(new LazyCandidate(id, sources)) === 'yes');
    const missing = missingFrom(own, compiled);
    const isNarrowed = !reach.covers('*') && mayMeanOthers(compiled, request, reach);
    return { minions, missing, isNarrowed };
  }

  /**
   * Whether a target gives this minion a right: see {@link CompiledTarget.isEntitled}. One that
   * cannot be read gives none.
   */
  entitles(request: TargetRequest, minionId: string): boolean {
    return this.#tryToRead(request)?.isEntitled(this.#rightful(minionId)) === true;
  }

  /**
   * Whether a target means this minion for certain, by its own word where it asks for grains. One
   * that cannot be read does not.
   */
  matches(request: TargetRequest, minionId: string): boolean {
    return this.#tryToRead(request)?.test(this.#candidate(minionId)) === 'yes';
  }

  /** Whether a target entitles all of these, and their keys are accepted; see {@link entitles}. */
  entitlesAll(request: TargetRequest, minions: readonly string[]): boolean {
    const compiled = this.#tryToRead(request);
    const { isAccepted } = this.#options;
    return minions.every(
      (id) => isAccepted(id) && compiled?.isEntitled(this.#rightful(id)) === true,
    );
  }

  /**
   * A target that rights depend on, read once, to be asked about minions as they are known then.
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

  #tryToRead(request: TargetRequest): CompiledTarget | undefined {
    try {
      const target = parseTarget(request, this.#nodegroups);
      return readTarget(() => compileTarget(target, compileLinearPattern));
    } catch (error) {
      if (error instanceof MasterError) return undefined;
      throw error;
    }
  }

  /** As {@link resolve}, with the reason for each minion. @throws MasterError ERR_BAD_TGT */
  async plan(request: TargetRequest): Promise<TargetPlan> {
    const { target, compiled, sure, unknown, missing } = await this.#match(request);
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

  async #match(request: TargetRequest): Promise<Matched> {
    const target = parseTarget(request, this.#nodegroups);
    const accepted = this.#options.acceptedIds();
    const compiled = await this.#compile(target, accepted);
    const sure: string[] = [];
    const unknown: string[] = [];
    const resources = new Map<string, ReadonlySet<string>>();
    for (const id of accepted) {
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

  /** Salt leaves out minions that a `not` takes away, except where it has no data of anybody. */
  #mayMatch(compiled: CompiledTarget, candidate: TargetCandidate): boolean {
    return !this.#options.isDataCached || compiled.isPossible(candidate);
  }

  async #compile(target: TargetExpression, accepted: readonly string[]): Promise<CompiledTarget> {
    const slow = new SlowPatterns();
    const compiled = readTarget(() => compileTarget(target, slow.compile));
    if (!slow.isNeeded) return compiled;
    for (const id of accepted) {
      // All conditions, because the answer of one decides whether another is asked.
      for (const term of compiled.terms) term.test(this.#candidate(id));
    }
    await slow.settle(this.#slowPatterns);
    return compiled;
  }

  #rightful(id: string): TargetCandidate {
    const { factsOf, rightsOf = factsOf } = this.#options;
    return new LazyCandidate(id, { factsOf: rightsOf });
  }

  #candidate(id: string): TargetCandidate {
    return new LazyCandidate(id, this.#options);
  }
}

/** Facts and resources are looked up where a condition asks for them, facts once. */
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

/** `undefined` for one that is not defined, or is broken: whoever may not know it learns neither. */
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
  return !terms.some(({ isSelfTold, isPillarPattern }) => isSelfTold || isPillarPattern);
}

function refuseTerm(
  { terms }: CompiledTarget,
  isRefused: (term: CompiledTarget['terms'][number]) => boolean,
  reason: string,
): void {
  const found = terms.find(isRefused);
  if (found === undefined) return;
  throw badTarget(
    `"${found.text}" ${reason}; where secrets are given, a target names minions by id, by a ` +
      'nodegroup without grains, or by a value of pillar',
  );
}

function readTarget(compile: () => CompiledTarget): CompiledTarget {
  try {
    return compile();
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw badTarget(`the target cannot be read: ${error.message}`, { cause: error });
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
 * Whether a target can mean minions that the reach does not include. Nothing but the texts of target
 * and rules decides, so that the answer says nothing of other minions.
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
