/** Runs the command of a step, or the command that undoes a step. */

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

/** Options for all steps of a run. */
export interface StepRunnerOptions {
  readonly commands: Pick<CommandRunner, 'start'>;
  /**
   * Caller of the plan. The plan itself ends its steps when the caller's token becomes invalid, so
   * steps do not watch the token.
   */
  readonly caller: Pick<ResolvedCaller, 'name' | 'subject' | 'policy'>;
  readonly parameters: Parameters;
  /** Time at which the minions of the plan were determined, in milliseconds since 1970. */
  readonly resolvedAt: number;
  readonly live: Pick<PlanRun, 'id' | 'plan'>;
  /**
   * Data from which the idempotency keys of the steps are derived. Absent if the run of the plan is
   * not stored.
   */
  readonly key?: { readonly project: string; readonly digest: string };
  readonly logger: Pick<ExtensionHost['logger'], 'error'>;
}

/** Step to run or to undo. */
export interface StepCall {
  readonly step: CompiledStep;
  readonly kind: StepKind;
  /** Command to run: the command of the step, or the one that undoes it. */
  readonly mapped: MappedCommand;
  /** Minions, in the order in which they are divided into batches. */
  readonly minions: readonly string[];
  readonly batchSize: number;
  /** Number of minions on which the command may fail before the step fails. */
  readonly maxFailures: number;
  readonly returned: StepReturns;
  /** Deadline, in milliseconds since 1970. Default: now plus the command's timeout. */
  readonly deadline?: number;
  readonly signal?: AbortSignal;
  /** Called with each result when it arrives. */
  readonly onResult: (result: CommandResult) => void;
}

interface StepBatch {
  /** Validated parameters of the command. */
  readonly parameters: Parameters;
  readonly minions: readonly string[];
  readonly first: number;
}

/** Runs the steps of one run of a plan. */
export class StepRunner {
  readonly #options: StepRunnerOptions;

  constructor(options: StepRunnerOptions) {
    this.#options = options;
  }

  /** Runs a step. If it fails, the outcome contains the reason. */
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

  /**
   * Runs the command in batches, and stops when too many minions have failed.
   * @returns the reason of the failure, or `undefined` after success
   */
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
      if (signal?.aborted === true) return 'the run of the plan ended before this step started';
      const batch = { parameters, minions: minions.slice(first, first + batchSize), first };
      const handle = await this.#start(call, batch);
      runs.push(handle.id);
      for await (const result of resultsOf(handle)) {
        results.set(result.minion, result);
        onResult(result);
      }
      const failed = [...results.values()].filter(({ state }) => state !== 'succeeded').length;
      if (failed > maxFailures) return `the command did not succeed on ${failed} minions`;
    }
    return undefined;
  }

  /**
   * Starts the command for a batch.
   * @param batch - minions of the batch, and the position of the first one among all minions
   */
  async #start(
    { step, kind, mapped, deadline, signal }: StepCall,
    { parameters, minions, first }: StepBatch,
  ): Promise<CommandHandle> {
    const { commands, caller, key, live, resolvedAt } = this.#options;
    const own: CommandCall = {
      caller,
      command: mapped.command,
      parameters,
      minions,
      resolvedAt,
      deadline,
      signal,
    };
    if (key === undefined) return commands.start(own);
    const { project, digest } = key;
    const owner = {
      caller: caller.name,
      project,
      // A command cannot have this name. Therefore the key differs from every key that a caller
      // chooses.
      command: `plan:${live.plan}/${step.name}/${kind}`,
      key: `${live.id}/${first}`,
    };
    return commands.start({ ...own, key: { owner, digest } });
  }

  /**
   * Returns the message of a `BridgeError`. Logs any other error, and returns a message without
   * details.
   */
  #reasonOf(error: unknown): string {
    if (error instanceof BridgeError) return `${error.code}: ${error.message}`;
    const { live, logger } = this.#options;
    logger.error(
      { plan: live.plan, jid: live.id, err: error },
      'internal error while running a step of a plan; the step has failed',
    );
    return 'internal error of the bridge; see its log';
  }
}

/**
 * Yields the results of a command's run as they arrive. If the run had already ended, yields the
 * results in its outcome.
 */
async function* resultsOf(handle: CommandHandle): AsyncGenerator<CommandResult, void, void> {
  // The results in the outcome may be copies, without returns.
  const yielded = new Map<string, CommandResult['state']>();
  for await (const update of handle.updates()) {
    if (update.type !== 'result') continue;
    yielded.set(update.result.minion, update.result.state);
    yield update.result;
  }
  for (const result of (await handle.outcome).results) {
    if (yielded.get(result.minion) !== result.state) yield result;
  }
}
