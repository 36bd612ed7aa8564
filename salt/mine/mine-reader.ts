import {
  everyone,
  type Jobs,
  MasterError,
  minionOwner,
  type TargetRequest,
  type Users,
} from '#master';
import { unpackLocal, type WireMap, type WireValue } from '#minion-protocol';
import { type FairSlots, minionWork, userWork, WorkBudget, WorkLimitExceeded } from '#runtime';
import { saltLimits } from '../limits.ts';
import { readMineEntry } from './mine-entry.ts';
import type { MineStore } from './mine-store.ts';

type TargetReach = Parameters<Jobs['targets']['resolveWithin']>[1];
/**
 * Function that returns the minions whose mine a query reads: those that match its target. It
 * examines only minions whose mine the caller may query.
 */
type OwnersWithin = Awaited<ReturnType<Jobs['targets']['compileWithin']>>;

/** Steps that reading a value from the store takes. */
const stepsOfLookup = 300;
const maxFunctions = saltLimits.mineQueryFunctions.perOwner ?? Infinity;
const maxNameCharacters = saltLimits.mineQueryNames.perOwner ?? Infinity;

/** A query of the mine. */
export interface MineQuery {
  readonly target: TargetRequest;
  /**
   * Function names: a list, or a text with commas between them. The reply to a list is grouped by
   * function. The reply to a text is grouped by function if it names several.
   */
  readonly fun: string | readonly string[];
}

/** Query with the functions that the reader may query. */
interface PermittedQuery extends Pick<MineQuery, 'target'> {
  readonly funs: readonly string[];
  readonly isByFunction: boolean;
}

export interface MineReaderOptions {
  readonly mine: MineStore;
  readonly targets: Pick<Jobs['targets'], 'compileWithin' | 'entitles' | 'matches'>;
  readonly gate: Users['gate'];
  /** Limits how many mine queries run at a time, in total and for each minion or user. */
  readonly slots: FairSlots;
  /** `mine_trusts_grains`: whether a query may select the owners of values by their grains. */
  readonly trustsGrains: boolean;
  /** `mine_reply_bytes`: maximum size of a reply, in bytes. */
  readonly maxBytes: number;
}

/** Result of a mine query: the reply, or the reason why the query is refused. */
export type MineAnswer =
  | { readonly ok: true; readonly value: WireMap; readonly isWithheld: boolean }
  | { readonly ok: false; readonly reason: MineRefusal };

type MineRefusal = 'mine-functions' | 'mine-target' | 'mine-reply-bytes' | 'mine-work-limit';

/** Reads mines and applies the access rules [WIRE 9.6; THREATS M-11]. */
export class MineReader {
  readonly #options: MineReaderOptions;

  constructor(options: MineReaderOptions) {
    this.#options = options;
  }

  /**
   * Reads the mines of the targeted minions. Waits until the requester has a slot.
   * @param readerId - verified id of the requesting minion; `undefined`: the master, which may read
   * all
   * @param requester - owner of the slot; by default, the minion
   * @throws LimitExceeded if too many queries of the requester are already waiting
   */
  async read(
    readerId: string | undefined,
    query: MineQuery,
    requester: string = minionOwner(readerId),
  ): Promise<MineAnswer> {
    const funs = functionsOf(query.fun);
    if (funs === undefined) return { ok: false, reason: 'mine-functions' };
    const permitted = funs.filter((fun) => this.#mayAsk(readerId, fun));
    const budget = new WorkBudget(readerId === undefined ? userWork : minionWork, requester);
    const isByFunction = typeof query.fun !== 'string' || funs.length > 1;
    const asked = { target: query.target, funs: permitted, isByFunction };
    return this.#options.slots.run(requester, () => this.#read(readerId, asked, budget));
  }

  async #read(
    readerId: string | undefined,
    query: PermittedQuery,
    budget: WorkBudget,
  ): Promise<MineAnswer> {
    const reading = new Reading(this.#options, readerId, budget);
    let ownersWithin: OwnersWithin | undefined;
    try {
      for (const fun of query.funs) {
        ownersWithin ??= await this.#compile(readerId, query, budget);
        for (const owner of await ownersWithin(this.#reach(readerId, fun))) {
          if (!(await reading.take(owner, fun))) return { ok: false, reason: 'mine-reply-bytes' };
        }
      }
    } catch (error) {
      if (error instanceof MasterError) return { ok: false, reason: 'mine-target' };
      if (error instanceof WorkLimitExceeded) return { ok: false, reason: 'mine-work-limit' };
      throw error;
    }
    const { values, isWithheld } = reading;
    return { ok: true, value: toReply(values, query.isByFunction), isWithheld };
  }

  #reach(readerId: string | undefined, fun: string): TargetReach {
    if (readerId === undefined) return everyone;
    const subject = { kind: 'minion', id: readerId } as const;
    const { gate } = this.#options;
    const asked = { subject, action: 'mine', fun } as const;
    return gate.reachToLearn(asked) ?? gate.reach(asked);
  }

  #compile(
    readerId: string | undefined,
    { target }: PermittedQuery,
    budget: WorkBudget,
  ): Promise<OwnersWithin> {
    return this.#options.targets.compileWithin(target, readerId === undefined, budget);
  }

  #mayAsk(readerId: string | undefined, fun: string): boolean {
    if (readerId === undefined) return true;
    const subject = { kind: 'minion', id: readerId } as const;
    const question = { subject, action: 'mine', resource: { fun } } as const;
    return this.#options.gate.decide(question).effect === 'allow';
  }
}

/**
 * Returns the function names of a query, each once, or `undefined` if they are too long or too many.
 * The length is checked first, so that a long text is not split.
 */
function functionsOf(fun: string | readonly string[]): readonly string[] | undefined {
  const length =
    typeof fun === 'string' ? fun.length : fun.reduce((sum, name) => sum + name.length, 0);
  if (length > maxNameCharacters) return undefined;
  const funs = [...new Set(typeof fun === 'string' ? fun.split(',') : fun)];
  return funs.length > maxFunctions ? undefined : funs;
}

/** State of one mine query while its reply is collected. */
class Reading {
  readonly values = new Map<string, Map<string, WireValue>>();
  /**
   * Whether the query found a value that an access rule or an owner's `allow_tgt` hides from the
   * reader.
   */
  isWithheld = false;
  readonly #options: MineReaderOptions;
  readonly #readerId: string | undefined;
  readonly #budget: WorkBudget;
  /**
   * For each target in `allow_tgt`, by its text: whether the sender of the query matches it. Most
   * owners of mine values use the same target, so each target is evaluated only once per query.
   */
  readonly #verdicts = new Map<string, boolean>();
  #bytes = 0;

  constructor(options: MineReaderOptions, readerId: string | undefined, budget: WorkBudget) {
    this.#options = options;
    this.#readerId = readerId;
    this.#budget = budget;
  }

  /**
   * Adds the mine value of one minion (the owner) to the reply.
   * @returns false if the reply is too large
   */
  async take(owner: string, fun: string): Promise<boolean> {
    const found = await this.#options.mine.find(owner, fun);
    // The store answers in the same turn, also for values that do not exist.
    await this.#budget.giveWayAfter(stepsOfLookup + (found?.bytes.length ?? 0));
    if (found === undefined) return true;
    const { value, allowed } = readMineEntry(unpackLocal(found.bytes));
    if (!this.#mayRead(owner, fun, allowed)) {
      this.isWithheld = true;
      return true;
    }
    this.#bytes += found.bytes.length + owner.length;
    if (this.#bytes > this.#options.maxBytes) return false;
    const byOwner = this.values.get(fun) ?? new Map<string, WireValue>();
    this.values.set(fun, byOwner.set(owner, value));
    return true;
  }

  #mayRead(owner: string, fun: string, allowed: TargetRequest | undefined): boolean {
    const id = this.#readerId;
    if (id === undefined) return true;
    const resource = {
      fun,
      owner,
      isAllowedByOwner: () => allowed === undefined || this.#isAllowed(allowed, id),
    };
    const question = { subject: { kind: 'minion', id }, action: 'mine', resource } as const;
    return this.#options.gate.decide(question).effect === 'allow';
  }

  #isAllowed(allowed: TargetRequest, readerId: string): boolean {
    const name = JSON.stringify(allowed);
    const known = this.#verdicts.get(name);
    if (known !== undefined) return known;
    const { targets, trustsGrains } = this.#options;
    const verdict = trustsGrains
      ? targets.matches(allowed, readerId, this.#budget)
      : targets.entitles(allowed, readerId, this.#budget);
    this.#verdicts.set(name, verdict);
    return verdict;
  }
}

/**
 * Formats the reply. If the request names one function as plain text, the reply is a map from each
 * minion to its value. Otherwise the reply has one such map for each function.
 */
function toReply(values: Map<string, Map<string, WireValue>>, isByFunction: boolean): WireMap {
  const reply: WireMap = Object.create(null);
  for (const [fun, byOwner] of values) {
    const map: WireMap = Object.assign(Object.create(null), Object.fromEntries(byOwner));
    if (!isByFunction) return map;
    reply[fun] = map;
  }
  return reply;
}
