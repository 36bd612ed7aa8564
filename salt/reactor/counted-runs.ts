/** Fields of a reaction's run by which the run is counted. */
interface Countable {
  readonly reaction: string;
  readonly sender?: string | undefined;
  /** Site that caused an event of the master. */
  readonly owner?: string | undefined;
}

/** Numbers of runs, by reaction and owner. */
export class RunCounts {
  readonly #byReaction = new Map<string, number>();
  readonly #byOwner = new Map<string, number>();

  /**
   * Adds `change` to the number of runs of the reaction, and to the number of these runs that this
   * owner caused.
   */
  add({ reaction, sender, owner = sender }: Countable, change: 1 | -1): void {
    increase(this.#byReaction, reaction, change);
    increase(this.#byOwner, keyOf(reaction, owner), change);
  }

  /**
   * Counts the runs of a reaction.
   * @returns `all`: the number for all senders; `own`: the number for this owner
   */
  of(reaction: string, owner: string | undefined): { all: number; own: number } {
    return {
      all: this.#byReaction.get(reaction) ?? 0,
      own: this.#byOwner.get(keyOf(reaction, owner)) ?? 0,
    };
  }
}

/** Map of runs by jid that keeps {@link RunCounts} up to date. */
export class CountedRuns<Value> extends Map<string, Value> {
  readonly #counts: RunCounts;
  readonly #runOf: (value: Value) => Countable;

  constructor(counts: RunCounts, runOf: (value: Value) => Countable) {
    super();
    this.#counts = counts;
    this.#runOf = runOf;
  }

  override set(jid: string, value: Value): this {
    this.#count(jid, -1);
    super.set(jid, value);
    this.#count(jid, 1);
    return this;
  }

  override delete(jid: string): boolean {
    this.#count(jid, -1);
    return super.delete(jid);
  }

  #count(jid: string, change: 1 | -1): void {
    const value = this.get(jid);
    if (value !== undefined) this.#counts.add(this.#runOf(value), change);
  }
}

function keyOf(reaction: string, owner: string | undefined): string {
  return JSON.stringify(owner === undefined ? [reaction] : [reaction, owner]);
}

function increase(counts: Map<string, number>, key: string, change: number): void {
  const count = (counts.get(key) ?? 0) + change;
  if (count === 0) counts.delete(key);
  else counts.set(key, count);
}
