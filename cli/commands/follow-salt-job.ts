/** Follows jobs and batches, and prints their returns. */

import {
  isFailureCode,
  type JobUpdate,
  type MasterApi,
  type RunRequest,
  returnerOf,
} from '#master';
import { plainNumber, type WireValue } from '#minion-protocol';
import type { CommandContext } from '../context.ts';
import { exitCodes } from '../errors.ts';
import type { OutputSink } from '../output/output-options.ts';
import {
  formatReturn,
  formatReturns,
  type MinionReturn,
  type OutputOptions,
} from '../output/outputters.ts';
import { mapEntries } from '../output/value-text.ts';
import { escapeName, Progress, printLine } from '../terminal.ts';
import {
  formatFunctionDocs,
  formatInterrupted,
  formatJobSummary,
  formatTargetProblem,
  noResponseReturn,
  printLeftOut,
  reconnectingReturn,
} from './salt-output.ts';

/** Salt's message for a target that matches no minion. */
export const noMinionsMatched =
  'No minions matched the target. No command was sent, no jid was assigned.';

/** Salt's message for a job without returns. */
export const noReturnReceived = 'ERROR: No return received';

/** Display options of a job. */
interface JobFollowerOptions {
  readonly output: OutputOptions;
  readonly sink: OutputSink;
  /** Whether all returns are printed together at the end, instead of each when it arrives. */
  readonly isStatic: boolean;
  /** Whether the jid is printed first, and the minions are listed in the summary. */
  readonly isVerbose: boolean;
  /** Whether the jid is printed first. */
  readonly showsJid: boolean;
  /** Whether minions without a return are listed. */
  readonly showsSilent: boolean;
  /** Whether a summary is printed at the end. */
  readonly hasSummary: boolean;
  /** Whether only the progress and a summary are printed, without returns. */
  readonly isProgressOnly: boolean;
}

/**
 * Follows one job and prints the output of `salt` [salt cli/salt.py]. An object can be used only
 * once.
 */
export class JobFollower {
  readonly #stdout: CommandContext['stdout'];
  readonly #stderr: CommandContext['stderr'];
  readonly #options: JobFollowerOptions;
  readonly #progress: Progress;
  readonly #returns: MinionReturn[] = [];
  readonly #silent: string[] = [];
  #expected = 0;
  #jid: string | undefined;

  constructor(context: Pick<CommandContext, 'stdout' | 'stderr'>, options: JobFollowerOptions) {
    this.#stdout = context.stdout;
    this.#stderr = context.stderr;
    this.#options = options;
    this.#progress = new Progress(context.stderr);
  }

  /**
   * Publishes the job and prints its returns until it ends.
   * @returns Salt's exit code
   */
  async follow(jobs: MasterApi['jobs'], request: RunRequest, signal: AbortSignal): Promise<number> {
    const { isStatic, isProgressOnly } = this.#options;
    const isWhole = !isProgressOnly && (isStatic || request.fun === 'sys.doc');
    try {
      for await (const update of jobs.run(request, signal)) {
        if (signal.aborted) break;
        await this.#show(update, isWhole);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      this.#progress.clear();
    }
    if (signal.aborted) return this.#finishInterrupted();
    if (this.#expected === 0) return this.#finishWithoutMinions();
    return isWhole ? this.#finishWhole(request.fun) : this.#finish();
  }

  /**
   * Prints Salt's message for a target that matches no minion.
   * @returns exit code
   */
  async showNobody(problem: string): Promise<number> {
    await printLine(this.#stderr, formatTargetProblem(problem));
    return this.#finishWithoutMinions();
  }

  async #show(update: JobUpdate, isWhole: boolean): Promise<void> {
    switch (update.type) {
      case 'published':
        await this.#begin(update);
        break;
      case 'return':
        this.#returns.push({
          minion: returnerOf(update),
          value: update.return,
          isFailure: isFailureCode(update.retcode),
          ...(update.out === undefined ? {} : { out: update.out }),
        });
        if (!isWhole) await this.#print(this.#returns.at(-1));
        break;
      case 'running':
        break;
      case 'finished':
        await this.#end(update, isWhole);
        return;
    }
    this.#showProgress();
  }

  async #end(
    { jid, silent, reconnecting }: Extract<JobUpdate, { type: 'finished' }>,
    isWhole: boolean,
  ): Promise<void> {
    this.#silent.push(...silent, ...reconnecting);
    if (isWhole || !this.#options.showsSilent) return;
    for (const minion of this.#silent) {
      const result = reconnecting.includes(minion)
        ? reconnectingReturn(minion, jid)
        : noResponseReturn(minion, jid);
      await this.#print(result);
    }
  }

  async #begin(published: Extract<JobUpdate, { type: 'published' }>): Promise<void> {
    const { jid, minions, problem } = published;
    this.#jid = jid;
    this.#expected = minions.length;
    await printLeftOut(this.#stderr, published);
    if (problem !== undefined) await printLine(this.#stderr, formatTargetProblem(problem));
    if (this.#expected === 0 || this.#options.isStatic) return;
    const title = `Executing job with jid ${jid}`;
    if (this.#options.isVerbose) {
      await printLine(this.#stdout, `${title}\n${'-'.repeat(title.length)}\n`);
    } else if (this.#options.showsJid) {
      await printLine(this.#stdout, `jid: ${jid}`);
    }
  }

  async #print(result: MinionReturn | undefined): Promise<void> {
    if (result === undefined || this.#options.isProgressOnly) return;
    this.#progress.clear();
    await this.#options.sink.write(formatReturn(result, this.#options.output));
  }

  #showProgress(): void {
    const answered = this.#returns.length;
    if (answered < this.#expected) {
      this.#progress.show(`${answered} of ${this.#expected} answered`);
    }
  }

  async #finish(): Promise<number> {
    const { hasSummary, isProgressOnly, isVerbose, output, showsSilent } = this.#options;
    const failed = this.#returns.filter(({ isFailure }) => isFailure);
    const silent = showsSilent ? this.#silent : [];
    if (isProgressOnly || (hasSummary && output.outputter === undefined)) {
      const facts = { returned: this.#returns.map(minionOf), silent, failed: failed.map(minionOf) };
      await printLine(this.#stdout, formatJobSummary(facts, isVerbose));
    }
    // As in Salt, the exit code does not depend on the returned values here.
    if (isProgressOnly || (failed.length === 0 && silent.length === 0)) return exitCodes.ok;
    await printLine(this.#stderr, 'ERROR: Minions returned with non-zero exit code');
    return exitCodes.failure;
  }

  /**
   * Prints all returns together. As in Salt, the exit code with `--static` depends only on whether
   * a minion returned.
   */
  async #finishWhole(fun: string | readonly string[]): Promise<number> {
    const { output, sink, isStatic } = this.#options;
    await reportSilent(this.#stderr, this.#silent);
    if (this.#returns.length === 0) return reportNoReturn(this.#stderr);
    const texts =
      fun === 'sys.doc'
        ? formatFunctionDocs(this.#returns, output)
        : [formatReturns(this.#returns, fun, output)];
    for (const text of texts) await (isStatic ? sink.write(text) : printLine(this.#stdout, text));
    return exitCodes.ok;
  }

  async #finishWithoutMinions(): Promise<number> {
    await printLine(this.#stdout, noMinionsMatched);
    if (!this.#options.isStatic) {
      await this.#options.sink.write(formatReturns([], '', this.#options.output));
    }
    return reportNoReturn(this.#stderr);
  }

  async #finishInterrupted(): Promise<number> {
    const text =
      this.#jid === undefined ? '\nExiting gracefully on Ctrl-c' : formatInterrupted(this.#jid);
    await printLine(this.#stderr, text);
    return exitCodes.interrupted;
  }
}

async function reportMinions(
  stderr: CommandContext['stderr'],
  what: string,
  minions: readonly string[],
): Promise<void> {
  await printLine(stderr, `saltbridge: ${what}: ${minions.map(escapeName).join(', ')}`);
}

export async function reportSilent(
  stderr: CommandContext['stderr'],
  minions: readonly string[],
): Promise<void> {
  if (minions.length > 0) await reportMinions(stderr, 'no answer', minions);
}

export async function reportNoReturn(stderr: CommandContext['stderr']): Promise<number> {
  await printLine(stderr, noReturnReceived);
  return exitCodes.noReturn;
}

function minionOf({ minion }: MinionReturn): string {
  return minion;
}

/** Returns the highest retcode. A job with several functions has one retcode for each function. */
export function highestCode(retcode: WireValue): number {
  const codes = (mapEntries(retcode) ?? []).map(([, code]) => highestCode(code));
  if (codes.length > 0) return Math.max(...codes);
  const code = plainNumber(retcode);
  if (typeof code === 'number') return code;
  return isFailureCode(retcode) ? exitCodes.failure : exitCodes.ok;
}
