/** Executes a plan: runs its steps, and undoes them if the plan fails. */

import { toJson } from '#master';
import type { ParameterValue } from '../commands/parameters.ts';
import type { CompiledPlan, CompiledStep } from './plan-catalog.ts';
import type { PlanOutcome, StepOutcome } from './plan-request.ts';
import type { PlanRun } from './plan-run.ts';
import { StepProgressEmitter } from './step-progress.ts';
import type { StepCall, StepRunner } from './step-runner.ts';
import { StepSchedule } from './step-schedule.ts';

/** Progress of a run. After a restart, the next process continues from it. */
interface PlanState {
  /** Names of the steps that were started. Ended steps are included. */
  readonly begun: readonly string[];
  /** Names of the ended steps, in the order in which they ended. */
  readonly ended: readonly string[];
  /**
   * Status that the plan will have when its completed steps have been undone. Absent while steps
   * run.
   */
  readonly undoing?: PlanOutcome['status'];
}

export interface PlanExecutionOptions {
  readonly plan: CompiledPlan;
  readonly live: PlanRun;
  readonly steps: Pick<StepRunner, 'run'>;
  /** Progress that a previous process stored. */
  readonly before: PlanState;
  /** Stores the progress. Resolves when it is durable. */
  readonly keep: (state: PlanState) => Promise<void>;
  /** Deadline of the steps, in milliseconds since 1970. */
  readonly deadline: number;
  readonly ends: PlanEnds;
  /** Whether completed steps are undone after a cancellation. */
  readonly undoesOnCancel: () => boolean;
}

/** Events that end the execution of a plan. */
interface PlanEnds {
  /** Whether the deadline has passed. */
  readonly isLate: () => boolean;
  /** Aborted when the run is cancelled, for any reason. */
  readonly cancelled: AbortSignal;
  /** Aborted at the deadline, or when the run is cancelled. */
  readonly ended: AbortSignal;
  /** Aborted when the caller's token becomes invalid. */
  readonly revoked?: AbortSignal | undefined;
  /** Aborted when the master closes. No further steps are then started. */
  readonly closing: AbortSignal;
}

/** Executes one run of a plan. */
export class PlanExecution {
  readonly #options: PlanExecutionOptions;
  readonly #schedule: StepSchedule;
  readonly #outcomes = new Map<string, StepOutcome>();
  readonly #undone: StepOutcome[] = [];
  readonly #begun: Set<string>;
  readonly #progress: StepProgressEmitter;
  #failedStep: string | undefined;

  constructor(options: PlanExecutionOptions) {
    const { steps, needs, definition } = options.plan;
    const scheduled = steps.map(({ name, definition: { onFailure } }) => ({
      name,
      stops: onFailure !== 'continue',
    }));
    this.#options = options;
    this.#begun = new Set(options.before.begun);
    this.#schedule = new StepSchedule(scheduled, needs, definition.parallel ?? 8);
    this.#progress = new StepProgressEmitter(options.live, steps.length);
  }

  /**
   * Executes the plan, and returns its outcome. Failures on minions are part of the outcome.
   * @throws only after an internal error of the master
   */
  async follow(): Promise<PlanOutcome> {
    const { before, ends, keep } = this.#options;
    const { closing } = ends;
    await this.#recall(before.ended);
    const status = before.undoing ?? (await this.#forward());
    // A step that was active when the execution ended may have run on some minions, so read its
    // results too.
    if (!closing.aborted) await this.#recall(before.begun);
    if (closing.aborted) return this.#outcome('interrupted');
    if (before.undoing === undefined && !this.#isTakenBack(status)) return this.#outcome(status);
    await keep({ ...this.#state, undoing: status });
    await this.#undo();
    return this.#outcome(closing.aborted ? 'interrupted' : status);
  }

  get #state(): PlanState {
    return { begun: [...this.#begun], ended: [...this.#schedule.ended.keys()] };
  }

  /**
   * Reads the results of steps that an earlier process started. The runs of these steps are stored,
   * so no command runs again.
   */
  async #recall(names: readonly string[]): Promise<void> {
    for (const name of names) {
      if (!this.#schedule.ended.has(name)) this.#end(name, await this.#do(name, undefined));
    }
  }

  async #forward(): Promise<PlanOutcome['status']> {
    const { ends, plan } = this.#options;
    const { ended, isLate, cancelled, closing } = ends;
    const stop = (): void => this.#schedule.stop();
    for (const end of [ended, closing]) end.addEventListener('abort', stop);
    if (ended.aborted || closing.aborted) stop();
    await this.#goOn();
    for (const end of [ended, closing]) end.removeEventListener('abort', stop);
    const states = plan.steps.map(({ name }) => this.#schedule.ended.get(name));
    if (states.every((state) => state === 'succeeded')) return 'succeeded';
    if (cancelled.aborted) return 'cancelled';
    if (isLate()) return 'timeout';
    return this.#schedule.isStopped ? 'failed' : 'partial';
  }

  /**
   * Starts the steps whose dependencies have succeeded, up to the plan's limit on concurrent steps.
   * When a step ends, starts the steps that are then ready. Resolves when all these steps have
   * ended.
   */
  async #goOn(): Promise<void> {
    const { ends, keep } = this.#options;
    const { closing, ended } = ends;
    const names = this.#schedule.begin();
    if (names.some((name) => !this.#begun.has(name))) {
      for (const name of names) this.#begun.add(name);
      await keep(this.#state);
    }
    await Promise.all(
      names.map(async (name) => {
        const outcome = await this.#do(name, ended);
        // After the master closes, the next process reads the result of the step.
        if (closing.aborted) return;
        this.#end(name, outcome);
        await keep(this.#state);
        await this.#goOn();
      }),
    );
  }

  async #do(name: string, signal: AbortSignal | undefined): Promise<StepOutcome> {
    const { live, deadline } = this.#options;
    const step = this.#step(name);
    const { group, maxFailures = 0, batchSize } = step.definition;
    const minions = live.groups[group] ?? [];
    return this.#run({
      step,
      kind: 'do',
      mapped: step,
      minions,
      batchSize: batchSizeOf(batchSize, minions.length),
      maxFailures,
      deadline,
      ...(signal === undefined ? {} : { signal }),
    });
  }

  #end(name: string, outcome: StepOutcome): void {
    this.#outcomes.set(name, outcome);
    const { isStopped } = this.#schedule;
    this.#schedule.end(name, outcome.status === 'succeeded' ? 'succeeded' : 'failed');
    if (!isStopped && this.#schedule.isStopped) this.#failedStep = name;
  }

  /**
   * Undoes the ended steps, the latest first. If undoing a step fails, continues with the others.
   */
  async #undo(): Promise<void> {
    for (const name of this.#state.ended.toReversed()) {
      const step = this.#step(name);
      const { undo } = step;
      const minions = this.#touchedBy(name, undo?.failed === true);
      if (undo === undefined || minions.length === 0) continue;
      if (this.#options.ends.closing.aborted) return;
      const batchSize = minions.length;
      const call = {
        step,
        kind: 'undo',
        mapped: undo,
        minions,
        batchSize,
        maxFailures: 0,
      } as const;
      const { revoked: signal } = this.#options.ends;
      this.#undone.push(await this.#run({ ...call, ...(signal === undefined ? {} : { signal }) }));
    }
  }

  /**
   * Returns the minions on which a step succeeded.
   * @param withFailed - whether to include the minions on which it did not succeed
   */
  #touchedBy(name: string, withFailed: boolean): readonly string[] {
    const { results = [] } = this.#outcomes.get(name) ?? {};
    const touched = results.filter(({ state }) => withFailed || state === 'succeeded');
    return touched.map(({ minion }) => minion);
  }

  async #run(call: Omit<StepCall, 'returned' | 'onResult'>): Promise<StepOutcome> {
    const about = { step: call.step.name, kind: call.kind };
    const news = this.#progress.begin(about, call.minions.length);
    const outcome = await this.#options.steps.run({
      ...call,
      returned: this.#returned,
      onResult: news.note,
    });
    news.end(outcome);
    return outcome;
  }

  /**
   * Returns the values that minions have returned so far, by name of the step. Steps that ran on
   * several minions have no entry.
   */
  get #returned(): StepCall['returned'] {
    const found = new Map<string, ParameterValue>();
    for (const [name, { results }] of this.#outcomes) {
      const value = results.length === 1 ? results[0]?.return : undefined;
      if (value !== undefined) found.set(name, toJson(value, 'exact'));
    }
    return found;
  }

  #isTakenBack(status: PlanOutcome['status']): boolean {
    if (status === 'cancelled') return this.#options.undoesOnCancel();
    return status === 'failed' || status === 'timeout';
  }

  #step(name: string): CompiledStep {
    const step = this.#options.plan.steps.find((it) => it.name === name);
    if (step === undefined)
      throw new TypeError(`internal error: the plan has no step named ${name}`);
    return step;
  }

  #outcome(status: PlanOutcome['status']): PlanOutcome {
    const { live, plan } = this.#options;
    const steps = plan.steps.map(({ name, command }): StepOutcome => {
      const never = { status: 'skipped', results: [], runs: [] } as const;
      return this.#outcomes.get(name) ?? { step: name, command: command.definition.name, ...never };
    });
    const failed = this.#failedStep === undefined ? {} : { failedStep: this.#failedStep };
    return { id: live.id, plan: live.plan, status, steps, undone: this.#undone, ...failed };
  }
}

/** Returns the number of minions in a batch, which is at least one. */
function batchSizeOf(given: number | string | undefined, all: number): number {
  if (typeof given === 'number') return given;
  const part = given === undefined ? 100 : Number.parseInt(given, 10);
  return Math.max(1, Math.floor((all * part) / 100));
}
