/** Runs one step of a plan, or its rollback, as named commands. */

import type { ExtensionHost } from '#master';
import type { ResolvedCaller } from '../commands/callers.ts';
import type { CommandHandle, CommandResult } from '../commands/command-request.ts';
import type { CommandCall, CommandRunner } from '../commands/command-runner.ts';
import type { Parameters } from '../commands/parameters.ts';
import { BridgeError } from '../errors.ts';
import type { CompiledStep, MappedCommand } from './plan-catalog.ts';
import type { StepKind, StepOutcome } from './plan-request.ts';
import type { PlanRun } from './plan-run.ts';
import { type StepReturns, stepParameters } from './step-parameters.ts';

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
    const own: CommandCall = {
      caller,
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
