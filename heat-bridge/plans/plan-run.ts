/** A run of a plan: schedules its steps, runs them as named commands, and rolls back. */

import { type ExtensionHost, toJson } from '#master';
import type { JsonValue } from '#runtime';
import type { ResolvedCaller } from '../commands/callers.ts';
import type { CommandHandle, CommandResult } from '../commands/command-request.ts';
import type { CommandRunner, ResolvedCall } from '../commands/command-runner.ts';
import type { Parameters } from '../commands/parameters.ts';
import { TrackedRun } from '../commands/tracked-run.ts';
import { BridgeError } from '../errors.ts';
import {
  type CompiledPlan,
  type CompiledStep,
  type MappedCommand,
  type StepDependencies,
  type StepReturns,
  stepParameters,
} from './plan-catalog.ts';
import type { Groups } from './plan-groups.ts';
import type {
  PlanHandle,
  PlanOutcome,
  PlanUpdate,
  StepKind,
  StepOutcome,
  StepProgress,
} from './plan-request.ts';

// The schedule: which steps may start, and what follows from their ends. It has no side effects.

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

// Updates of steps.

/** What is told of one step. */
export interface StepReporter {
  note(result: CommandResult): void;
  end(outcome: StepOutcome): void;
}

/** Tells all steps of one run. */
export class StepProgressEmitter {
  readonly #live: Pick<PlanRun, 'tell'>;
  readonly #all: number;
  #ended = 0;

  /** @param all - how many steps there are */
  constructor(live: Pick<PlanRun, 'tell'>, all: number) {
    this.#live = live;
    this.#all = all;
  }

  /** @param all - how many minions it is for */
  begin(about: { readonly step: string; readonly kind: StepKind }, all: number): StepReporter {
    const states = new Map<string, CommandResult['state']>();
    const tell = (state: StepProgress['state'], reason?: string): void => {
      const succeeded = [...states.values()].filter((it) => it === 'succeeded').length;
      this.#live.tell({
        type: 'step',
        ...about,
        state,
        minions: { all, ended: states.size, succeeded },
        steps: { all: this.#all, ended: this.#ended },
        ...(reason === undefined ? {} : { reason }),
      });
    };
    tell('running');
    return {
      note: (result) => {
        states.set(result.minion, result.state);
        this.#live.tell({ type: 'result', ...about, result });
      },
      end: ({ status, reason }) => {
        if (about.kind === 'do') this.#ended += 1;
        tell(status, reason);
      },
    };
  }
}

/** How far a run is: what a master after this one must know to go on with it. */
interface PlanState {
  /** Steps that were begun, those that ended among them. */
  readonly begun: readonly string[];
  /** Steps that ended, in the order in which they did. */
  readonly ended: readonly string[];
  /** Why it takes back what is done. Absent: it does not, yet. */
  readonly undoing?: PlanOutcome['status'];
}

export interface PlanExecutionOptions {
  readonly plan: CompiledPlan;
  readonly live: PlanRun;
  readonly steps: Pick<StepRunner, 'run'>;
  /** How far it was when the master before this one ended. */
  readonly before: PlanState;
  /** Durable when it resolves. */
  readonly keep: (state: PlanState) => Promise<void>;
  /** Of its steps, milliseconds since 1970. */
  readonly deadline: number;
  /** Fires at the deadline. */
  readonly late: AbortSignal;
  /** Fires when it is cancelled, by whomever. */
  readonly cancelled: AbortSignal;
  /** Fires with either of them. */
  readonly ended: AbortSignal;
  /** Fires when the caller may do nothing more. */
  readonly revoked?: AbortSignal | undefined;
  /** Whether what is done is taken back when it is cancelled. */
  readonly undoesOnCancel: () => boolean;
  /** Fires when the master is being closed: nothing more is begun. */
  readonly closing: AbortSignal;
}

/** For a single use. */
export class PlanExecution {
  readonly #options: PlanExecutionOptions;
  readonly #schedule: StepSchedule;
  readonly #outcomes = new Map<string, StepOutcome>();
  readonly #undone: StepOutcome[] = [];
  readonly #begun: Set<string>;
  readonly #teller: StepProgressEmitter;
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
    this.#teller = new StepProgressEmitter(options.live, steps.length);
  }

  /** Rejects where the master fails, and never for what minions do. */
  async follow(): Promise<PlanOutcome> {
    const { before, closing, keep } = this.#options;
    await this.#recall(before.ended);
    const status = before.undoing ?? (await this.#forward());
    // What was under way, and may be no more, has been done in part.
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

  /** Steps of the master before: their runs are kept, so that nothing is done again. */
  async #recall(names: readonly string[]): Promise<void> {
    for (const name of names) {
      if (!this.#schedule.ended.has(name)) this.#end(name, await this.#do(name, undefined));
    }
  }

  async #forward(): Promise<PlanOutcome['status']> {
    const { ended, late, cancelled, closing, plan } = this.#options;
    const stop = (): void => this.#schedule.stop();
    for (const end of [ended, closing]) end.addEventListener('abort', stop);
    if (ended.aborted || closing.aborted) stop();
    await this.#goOn();
    for (const end of [ended, closing]) end.removeEventListener('abort', stop);
    const states = plan.steps.map(({ name }) => this.#schedule.ended.get(name));
    if (states.every((state) => state === 'succeeded')) return 'succeeded';
    if (cancelled.aborted) return 'cancelled';
    if (late.aborted) return 'timeout';
    return this.#schedule.isStopped ? 'failed' : 'partial';
  }

  /** Each step that ends begins those that waited for it. */
  async #goOn(): Promise<void> {
    const { closing, ended, keep } = this.#options;
    const names = this.#schedule.begin();
    if (names.some((name) => !this.#begun.has(name))) {
      for (const name of names) this.#begun.add(name);
      await keep(this.#state);
    }
    await Promise.all(
      names.map(async (name) => {
        const outcome = await this.#do(name, ended);
        // What it came to is for the next master to see.
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

  /** The latest step first; one that cannot be taken back keeps no other from it. */
  async #undo(): Promise<void> {
    for (const name of this.#state.ended.toReversed()) {
      const step = this.#step(name);
      const { undo } = step;
      const minions = this.#touchedBy(name, undo?.failed === true);
      if (undo === undefined || minions.length === 0) continue;
      if (this.#options.closing.aborted) return;
      const batchSize = minions.length;
      const call = {
        step,
        kind: 'undo',
        mapped: undo,
        minions,
        batchSize,
        maxFailures: 0,
      } as const;
      const { revoked: signal } = this.#options;
      this.#undone.push(await this.#run({ ...call, ...(signal === undefined ? {} : { signal }) }));
    }
  }

  /** Minions where a step succeeded, or that it was asked of at all. */
  #touchedBy(name: string, withFailed: boolean): readonly string[] {
    const { results = [] } = this.#outcomes.get(name) ?? {};
    const touched = results.filter(({ state }) => withFailed || state === 'succeeded');
    return touched.map(({ minion }) => minion);
  }

  async #run(call: Omit<StepCall, 'returned' | 'onResult'>): Promise<StepOutcome> {
    const about = { step: call.step.name, kind: call.kind };
    const news = this.#teller.begin(about, call.minions.length);
    const onResult = (result: CommandResult): void => news.note(result);
    const outcome = await this.#options.steps.run({ ...call, returned: this.#returned, onResult });
    news.end(outcome);
    return outcome;
  }

  /** What steps of one minion returned until now. */
  get #returned(): StepCall['returned'] {
    const found = new Map<string, JsonValue>();
    for (const [name, { results }] of this.#outcomes) {
      const value = results.length === 1 ? results[0]?.return : undefined;
      if (value !== undefined) found.set(name, toJson(value));
    }
    return found;
  }

  #isTakenBack(status: PlanOutcome['status']): boolean {
    if (status === 'cancelled') return this.#options.undoesOnCancel();
    return status === 'failed' || status === 'timeout';
  }

  #step(name: string): CompiledStep {
    const step = this.#options.plan.steps.find((it) => it.name === name);
    if (step === undefined) throw new TypeError('a step that the plan does not have');
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

/** How many minions at a time: one at least. */
function batchSizeOf(given: number | string | undefined, all: number): number {
  if (typeof given === 'number') return given;
  const part = given === undefined ? 100 : Number.parseInt(given, 10);
  return Math.max(1, Math.floor((all * part) / 100));
}

// The handle of a run.

/** What a run of a plan is begun with. */
export interface PlanRunOptions {
  readonly id: string;
  readonly plan: string;
  readonly groups: Groups;
  /** Name of whoever it is of. */
  readonly owner: string;
}

/** A run of a plan. */
export class PlanRun extends TrackedRun<PlanUpdate, PlanOutcome> {
  readonly plan: string;
  readonly groups: Groups;
  #undoesOnCancel = true;

  constructor({ id, plan, groups, owner }: PlanRunOptions) {
    super(id, owner);
    this.plan = plan;
    this.groups = groups;
  }

  /** Whether whoever cancelled it wants to have taken back what is done. */
  override get undoesOnCancel(): boolean {
    return this.#undoesOnCancel;
  }

  /** The first to do so says whether anything is taken back. */
  override cancel({ undo = true }: { readonly undo?: boolean } = {}): void {
    if (this.cancelled.aborted) return;
    this.#undoesOnCancel = undo;
    super.cancel();
  }

  handle(isRepeated: boolean): PlanHandle {
    const { id, plan, groups, outcome } = this;
    return {
      id,
      plan,
      groups,
      isRepeated,
      outcome,
      updates: () => this.updates(),
      cancel: async (options) => {
        this.cancel(options);
        await outcome;
      },
    };
  }
}

// One step, or its rollback, as named commands.

/** What all steps of a run have in common. */
export interface StepRunnerOptions {
  readonly commands: Pick<CommandRunner, 'start'>;
  /** Steps are ended by the plan, which also leaves the caller when it is over. */
  readonly caller: Pick<ResolvedCaller, 'name' | 'subject' | 'policy'>;
  readonly parameters: Parameters;
  readonly live: Pick<PlanRun, 'id' | 'plan'>;
  /** Of what the keys of steps are made. Absent: the plan has no key, and nothing is kept. */
  readonly key?: { readonly project: string; readonly digest: string };
  readonly logger: Pick<ExtensionHost['logger'], 'error'>;
}

/** One step that is to be run. */
export interface StepCall {
  readonly step: CompiledStep;
  readonly kind: StepKind;
  /** What of the step is run: itself, or what takes it back. */
  readonly mapped: MappedCommand;
  /** In the order in which it goes to them. */
  readonly minions: readonly string[];
  readonly batchSize: number;
  /** How many minions may fail. */
  readonly maxFailures: number;
  readonly returned: StepReturns;
  /** Milliseconds since 1970. Default: the command's timeout from now on. */
  readonly deadline?: number;
  readonly signal?: AbortSignal;
  /** Told of each result as it comes. */
  readonly onResult: (result: CommandResult) => void;
}

interface StepBatch {
  /** As the command has checked them. */
  readonly parameters: Parameters;
  readonly minions: readonly string[];
  readonly first: number;
}

/** Runs steps of one run of a plan. */
export class StepRunner {
  readonly #options: StepRunnerOptions;

  constructor(options: StepRunnerOptions) {
    this.#options = options;
  }

  /** Whatever goes wrong is its outcome. */
  async run(call: StepCall): Promise<StepOutcome> {
    const results = new Map<string, CommandResult>();
    const runs: string[] = [];
    const problem = await this.#runAll(call, results, runs).catch((error: unknown) =>
      this.#reasonOf(error),
    );
    return {
      step: call.step.name,
      command: call.mapped.command.definition.name,
      status: problem === undefined ? 'succeeded' : 'failed',
      results: [...results.values()],
      runs,
      ...(problem === undefined ? {} : { reason: problem }),
    };
  }

  /** So many minions at a time, until too many have failed. @returns why it failed */
  async #runAll(
    call: StepCall,
    results: Map<string, CommandResult>,
    runs: string[],
  ): Promise<string | undefined> {
    const { mapped, minions, batchSize, maxFailures, signal, onResult, returned } = call;
    if (minions.length === 0) return undefined;
    const given = stepParameters(mapped.sources, this.#options.parameters, returned);
    // protection: results-unchecked
    const parameters = mapped.command.check(given);
    for (let first = 0; first < minions.length; first += batchSize) {
      if (signal?.aborted === true) return 'it was ended before it began';
      const batch = { parameters, minions: minions.slice(first, first + batchSize), first };
      const handle = await this.#start(call, batch);
      runs.push(handle.id);
      for await (const result of resultsOf(handle)) {
        results.set(result.minion, result);
        onResult(result);
      }
      const failed = [...results.values()].filter(({ state }) => state !== 'succeeded').length;
      if (failed > maxFailures) return `${failed} minions did not succeed`;
    }
    return undefined;
  }

  /** @param batch - its minions, and the place of the first among all */
  async #start(
    { step, kind, mapped, deadline, signal }: StepCall,
    { parameters, minions, first }: StepBatch,
  ): Promise<CommandHandle> {
    const { commands, caller, key, live } = this.#options;
    const own: ResolvedCall = {
      caller: { ...caller, leave: () => {} },
      command: mapped.command,
      parameters,
      minions,
      deadline,
      signal,
    };
    if (key === undefined) return commands.start(own);
    const { project, digest } = key;
    const owner = {
      caller: caller.name,
      project,
      // No command is called so: nobody's own key is this one.
      command: `plan:${live.plan}/${step.name}/${kind}`,
      key: `${live.id}/${first}`,
    };
    return commands.start({ ...own, key: { owner, digest } });
  }

  /** Of refusals what they say; of anything else that it failed, and no more. */
  #reasonOf(error: unknown): string {
    if (error instanceof BridgeError) return `${error.code}: ${error.message}`;
    const { live, logger } = this.#options;
    logger.error({ plan: live.plan, jid: live.id, err: error }, 'step of a plan failed');
    return 'the bridge failed; see its log';
  }
}

/** Results as they come; of a run that was over before, those of its outcome. */
async function* resultsOf(handle: CommandHandle): AsyncGenerator<CommandResult, void, void> {
  const told = new Set<CommandResult>();
  for await (const update of handle.updates()) {
    if (update.type !== 'result') continue;
    told.add(update.result);
    yield update.result;
  }
  for (const result of (await handle.outcome).results) {
    if (!told.has(result)) yield result;
  }
}
