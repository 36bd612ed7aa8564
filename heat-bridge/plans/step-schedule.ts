/**
 * Determines which steps of a plan may start, and what the end of a step causes. Does not run steps
 * itself.
 */

/** Dependencies of each step. */
export type StepDependencies = ReadonlyMap<string, readonly string[]>;

/**
 * Returns the steps in an order in which each step comes after its dependencies. Returns
 * `undefined` if there is a cycle.
 */
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

/** Returns all steps on which a step depends, directly or indirectly. */
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

/** Step to schedule. */
export interface ScheduledStep {
  readonly name: string;
  /** Whether a failure of the step stops the plan. */
  readonly stops: boolean;
}

/** Result with which a step ended. */
export type StepEnd = 'succeeded' | 'failed';

/**
 * Schedules steps. A step can start when all its dependencies have succeeded. After `stop` was
 * called, no more steps start. The failure of a step with `stops` has the same effect. Active steps
 * continue to their end.
 */
export class StepSchedule {
  readonly #steps: readonly ScheduledStep[];
  readonly #needs: StepDependencies;
  readonly #parallel: number;
  readonly #running = new Set<string>();
  readonly #ended = new Map<string, StepEnd>();
  #isStopped = false;

  /**
   * Creates the schedule.
   * @param steps - all steps. If several are ready, they start in this order.
   */
  constructor(steps: readonly ScheduledStep[], needs: StepDependencies, parallel: number) {
    this.#steps = steps;
    this.#needs = needs;
    this.#parallel = parallel;
  }

  /** Ended steps with their results, in the order in which they ended. */
  get ended(): ReadonlyMap<string, StepEnd> {
    return this.#ended;
  }

  /** Whether the plan was stopped, by a failed step or by a call of `stop`. */
  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** Marks the steps that can start now as running, and returns them. */
  begin(): readonly string[] {
    if (this.#isStopped) return [];
    const ready = this.#steps.map(({ name }) => name).filter((name) => this.#isReady(name));
    const taken = ready.slice(0, Math.max(0, this.#parallel - this.#running.size));
    for (const name of taken) this.#running.add(name);
    return taken;
  }

  /** Records the end of a step. The step may have ended in an earlier process. */
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
