/** The schedule of a plan: which steps may start, and what follows from their ends. It has no side effects. */

/** A step, by what it needs. */
export type StepDependencies = ReadonlyMap<string, readonly string[]>;

/** The steps in an order in which each comes after what it needs; `undefined`: there is none. */
export function topologicalOrder(needs: StepDependencies): readonly string[] | undefined {
  const order = new Set<string>();
  for (;;) {
    const ready = [...needs.keys()].filter(
      (step) => !order.has(step) && (needs.get(step) ?? []).every((it) => order.has(it)),
    );
    if (ready.length === 0) break;
    for (const step of ready) order.add(step);
  }
  return order.size === needs.size ? [...order] : undefined;
}

/** All that a step needs, and what that needs. */
export function ancestorsOf(step: string, needs: StepDependencies): ReadonlySet<string> {
  const found = new Set<string>();
  const open = [...(needs.get(step) ?? [])];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (found.has(next)) continue;
    found.add(next);
    open.push(...(needs.get(next) ?? []));
  }
  return found;
}

/** A step to be scheduled. */
export interface ScheduledStep {
  readonly name: string;
  /** Whether its failure ends the plan. */
  readonly stops: boolean;
}

/** How a step ended. */
export type StepEnd = 'succeeded' | 'failed';

/**
 * A step begins when all that it needs has succeeded. Once one that stops has failed, or somebody
 * stops it, none begins any more; those that are under way end by themselves.
 */
export class StepSchedule {
  readonly #steps: readonly ScheduledStep[];
  readonly #needs: StepDependencies;
  readonly #parallel: number;
  readonly #running = new Set<string>();
  readonly #ended = new Map<string, StepEnd>();
  #isStopped = false;

  /** @param steps - in the order in which they begin where several may */
  constructor(steps: readonly ScheduledStep[], needs: StepDependencies, parallel: number) {
    this.#steps = steps;
    this.#needs = needs;
    this.#parallel = parallel;
  }

  /** Steps that ended, in the order in which they did. */
  get ended(): ReadonlyMap<string, StepEnd> {
    return this.#ended;
  }

  /** Whether a step that stops the plan failed, or somebody stopped it. */
  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** Takes the steps that may begin now. */
  begin(): readonly string[] {
    if (this.#isStopped) return [];
    const ready = this.#steps.map(({ name }) => name).filter((name) => this.#isReady(name));
    const taken = ready.slice(0, Math.max(0, this.#parallel - this.#running.size));
    for (const name of taken) this.#running.add(name);
    return taken;
  }

  /** A step has ended; also one that ended before, in another process. */
  end(name: string, end: StepEnd): void {
    this.#running.delete(name);
    this.#ended.set(name, end);
    const step = this.#steps.find((it) => it.name === name);
    if (end === 'failed' && step?.stops === true) this.#isStopped = true;
  }

  stop(): void {
    this.#isStopped = true;
  }

  #isReady(name: string): boolean {
    if (this.#running.has(name) || this.#ended.has(name)) return false;
    return (this.#needs.get(name) ?? []).every((it) => this.#ended.get(it) === 'succeeded');
  }
}
