import {
  isFailureCode,
  type JobsApi,
  type JobUpdate,
  type RunRequest,
  returnerOf,
} from '../master/index.ts';
import type { CommandContext } from './context.ts';
import { exitCodes } from './exit-codes.ts';
import { escapeName } from './output/escape.ts';
import { formatDocs } from './output/function-docs.ts';
import { formatSummary } from './output/job-summary.ts';
import { brokenTarget } from './output/plan.ts';
import {
  formatReturn,
  formatReturns,
  type MinionReturn,
  type OutputOptions,
} from './output/returns.ts';
import { leavingEarly, noResponse, stillReconnecting } from './output/silence.ts';
import type { OutputSink } from './output-sink.ts';
import { printLine } from './print.ts';
import { Progress } from './progress.ts';

/** How a job is shown. */
export interface FollowOptions {
  readonly output: OutputOptions;
  readonly sink: OutputSink;
  /** Everything at the end, in place of each return as it comes. */
  readonly isStatic: boolean;
  /** Names the jid first, and the minions in the summary. */
  readonly isVerbose: boolean;
  /** Names the jid first. */
  readonly showsJid: boolean;
  /** Whether minions that did not answer are told. */
  readonly showsSilent: boolean;
  /** Counts at the end. */
  readonly hasSummary: boolean;
}

/** Follows one job and prints what `salt` prints [salt cli/salt.py]. For a single use. */
export class JobFollower {
  readonly #stdout: CommandContext['stdout'];
  readonly #stderr: CommandContext['stderr'];
  readonly #options: FollowOptions;
  readonly #progress: Progress;
  readonly #returns: MinionReturn[] = [];
  readonly #silent: string[] = [];
  #expected = 0;
  #missing: readonly string[] = [];
  #jid: string | undefined;

  constructor(context: Pick<CommandContext, 'stdout' | 'stderr'>, options: FollowOptions) {
    this.#stdout = context.stdout;
    this.#stderr = context.stderr;
    this.#options = options;
    this.#progress = new Progress(context.stderr);
  }

  /** Publishes the job and prints it to its end. @returns the exit code, as Salt's */
  async follow(jobs: JobsApi, request: RunRequest, signal: AbortSignal): Promise<number> {
    const isWhole = this.#options.isStatic || request.fun === 'sys.doc';
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
    if (signal.aborted) return this.#leaveEarly();
    if (this.#expected === 0) return this.#nobodyMatched();
    return isWhole ? this.#finishWhole(request.fun) : this.#finish();
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
    this.#silent.push(...silent, ...reconnecting, ...this.#missing);
    if (isWhole || !this.#options.showsSilent) return;
    for (const minion of this.#silent) {
      const result = reconnecting.includes(minion)
        ? stillReconnecting(minion, jid)
        : noResponse(minion, jid);
      await this.#print(result);
    }
  }

  async #begin({
    jid,
    minions,
    missing,
    problem,
  }: Extract<JobUpdate, { type: 'published' }>): Promise<void> {
    this.#jid = jid;
    this.#expected = minions.length;
    this.#missing = missing;
    if (missing.length > 0) await this.#tell('no accepted key', missing);
    if (problem !== undefined) await printLine(this.#stderr, brokenTarget(problem));
    if (this.#expected === 0 || this.#options.isStatic) return;
    const title = `Executing job with jid ${jid}`;
    if (this.#options.isVerbose) {
      await printLine(this.#stdout, `${title}\n${'-'.repeat(title.length)}\n`);
    } else if (this.#options.showsJid) {
      await printLine(this.#stdout, `jid: ${jid}`);
    }
  }

  async #print(result: MinionReturn | undefined): Promise<void> {
    if (result === undefined) return;
    this.#progress.clear();
    await this.#options.sink.write(formatReturn(result, this.#options.output));
  }

  #showProgress(): void {
    const answered = this.#returns.length;
    if (answered < this.#expected) {
      this.#progress.show(`${answered} of ${this.#expected} answered`);
    }
  }

  async #tell(what: string, minions: readonly string[]): Promise<void> {
    await printLine(this.#stderr, `saltbridge: ${what}: ${minions.map(escapeName).join(', ')}`);
  }

  async #finish(): Promise<number> {
    const { hasSummary, isVerbose, output, showsSilent } = this.#options;
    const failed = this.#returns.filter(({ isFailure }) => isFailure);
    const silent = showsSilent ? this.#silent : [];
    if (hasSummary && output.outputter === undefined) {
      const facts = { returned: this.#returns.map(nameOf), silent, failed: failed.map(nameOf) };
      await printLine(this.#stdout, formatSummary(facts, isVerbose));
    }
    if (failed.length === 0 && silent.length === 0) return exitCodes.ok;
    await printLine(this.#stderr, 'ERROR: Minions returned with non-zero exit code');
    return exitCodes.failure;
  }

  /** As Salt, with `--static` the exit code says whether anybody returned, and nothing else. */
  async #finishWhole(fun: string | readonly string[]): Promise<number> {
    const { output, sink, isStatic } = this.#options;
    if (this.#silent.length > 0) await this.#tell('no answer', this.#silent);
    if (this.#returns.length === 0) return this.#nothingReturned();
    const texts =
      fun === 'sys.doc'
        ? formatDocs(this.#returns, output)
        : [formatReturns(this.#returns, fun, output)];
    for (const text of texts) await (isStatic ? sink.write(text) : printLine(this.#stdout, text));
    return exitCodes.ok;
  }

  async #nobodyMatched(): Promise<number> {
    await printLine(
      this.#stdout,
      'No minions matched the target. No command was sent, no jid was assigned.',
    );
    if (!this.#options.isStatic) {
      await this.#options.sink.write(formatReturns([], '', this.#options.output));
    }
    return this.#nothingReturned();
  }

  async #nothingReturned(): Promise<number> {
    await printLine(this.#stderr, 'ERROR: No return received');
    return exitCodes.noReturn;
  }

  async #leaveEarly(): Promise<number> {
    const text =
      this.#jid === undefined ? '\nExiting gracefully on Ctrl-c' : leavingEarly(this.#jid);
    await printLine(this.#stderr, text);
    return exitCodes.interrupted;
  }
}

function nameOf({ minion }: MinionReturn): string {
  return minion;
}
