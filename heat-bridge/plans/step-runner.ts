/** Runs one step of a plan, or what takes it back, as named commands. */
import type { ExtensionHost } from '../../master/index.ts';
import type { Parameters } from '../catalog/argument-values.ts';
import { BridgeError } from '../errors.ts';
import type { KnownCaller } from '../run/callers.ts';
import type { CommandRunner, KnownCall } from '../run/command-runner.ts';
import type { CommandHandle, CommandResult } from '../run/request.ts';
import type { CompiledStep, MappedCommand } from './compile-plan.ts';
import type { LivePlan } from './live-plan.ts';
import type { StepKind, StepOutcome } from './request.ts';
import { type Returned, valuesOf } from './sources.ts';

/** What all steps of a run have in common. */
export interface StepRunnerOptions {
  readonly commands: Pick<CommandRunner, 'start'>;
  /** Steps are ended by the plan, which also leaves the caller when it is over. */
  readonly caller: Pick<KnownCaller, 'name' | 'subject' | 'policy'>;
  readonly parameters: Parameters;
  readonly live: Pick<LivePlan, 'id' | 'plan'>;
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
  readonly atATime: number;
  /** How many minions may fail. */
  readonly tolerate: number;
  readonly returned: Returned;
  /** Milliseconds since 1970. Default: the command's timeout from now on. */
  readonly deadline?: number;
  readonly signal?: AbortSignal;
  /** Told of each result as it comes. */
  readonly onResult: (result: CommandResult) => void;
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
    const { minions, atATime, tolerate, signal, onResult } = call;
    for (let first = 0; first < minions.length; first += atATime) {
      if (signal?.aborted === true) return 'it was ended before it began';
      const handle = await this.#start(call, minions.slice(first, first + atATime), first);
      runs.push(handle.id);
      for await (const result of resultsOf(handle)) {
        results.set(result.minion, result);
        onResult(result);
      }
      const failed = [...results.values()].filter(({ state }) => state !== 'succeeded').length;
      if (failed > tolerate) return `${failed} minions did not succeed`;
    }
    return undefined;
  }

  async #start(call: StepCall, minions: readonly string[], first: number): Promise<CommandHandle> {
    const { commands, caller, parameters, key, live } = this.#options;
    const { step, kind, mapped, returned, deadline, signal } = call;
    const { command, sources } = mapped;
    const own: KnownCall = {
      caller: { ...caller, leave: () => {} },
      command,
      // protection: results-unchecked
      parameters: command.check(valuesOf(sources, parameters, returned)),
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
