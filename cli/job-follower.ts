import type { JobsApi, JobUpdate, RunRequest } from '../master/index.ts';
import type { CommandContext } from './context.ts';
import { exitCodes } from './exit-codes.ts';
import { escapeName } from './output/escape.ts';
import { brokenTarget } from './output/plan.ts';
import {
  formatReturn,
  formatReturns,
  isFailureCode,
  leavingEarly,
  type MinionReturn,
  noResponse,
  type ReturnsOptions,
} from './output/returns.ts';
import { printLine } from './print.ts';
import { Progress } from './progress.ts';

/** How a job is shown. */
export interface FollowOptions extends ReturnsOptions {
  /** Everything at the end, in place of each return as it comes. */
  readonly isStatic: boolean;
}

/** Follows one job and prints what `salt` prints. For a single use. */
export class JobFollower {
  readonly #stdout: CommandContext['stdout'];
  readonly #stderr: CommandContext['stderr'];
  readonly #options: FollowOptions;
  readonly #progress: Progress;
  readonly #returns: MinionReturn[] = [];
  #expected = 0;
  #jid: string | undefined;

  constructor(context: Pick<CommandContext, 'stdout' | 'stderr'>, options: FollowOptions) {
    this.#stdout = context.stdout;
    this.#stderr = context.stderr;
    this.#options = options;
    this.#progress = new Progress(context.stderr);
  }

  /** Publishes the job and prints it to its end. @returns the exit code, as Salt's */
  async follow(jobs: JobsApi, request: RunRequest, signal: AbortSignal): Promise<number> {
    try {
      for await (const update of jobs.run(request, signal)) {
        if (signal.aborted) break;
        await this.#show(update);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      this.#progress.clear();
    }
    if (signal.aborted) return this.#leaveEarly();
    return this.#expected === 0 ? this.#nobodyMatched() : this.#finish();
  }

  async #show(update: JobUpdate): Promise<void> {
    switch (update.type) {
      case 'published':
        this.#jid = update.jid;
        this.#expected = update.minions.length;
        await this.#tellMissing(update.missing);
        await this.#tellProblem(update.problem);
        break;
      case 'return':
        await this.#add({
          minion: update.minion,
          value: update.return,
          isFailure: isFailureCode(update.retcode),
          ...(update.out === undefined ? {} : { out: update.out }),
        });
        break;
      case 'running':
        break;
      case 'finished':
        for (const minion of update.silent) await this.#add(noResponse(minion, update.jid));
        return;
    }
    this.#showProgress();
  }

  async #add(result: MinionReturn): Promise<void> {
    this.#returns.push(result);
    if (!this.#options.isStatic) await this.#print(formatReturn(result, this.#options));
  }

  async #print(text: string): Promise<void> {
    this.#progress.clear();
    if (text !== '') await printLine(this.#stdout, text);
  }

  #showProgress(): void {
    const answered = this.#returns.length;
    if (answered < this.#expected) {
      this.#progress.show(`${answered} of ${this.#expected} answered`);
    }
  }

  async #tellMissing(missing: readonly string[]): Promise<void> {
    if (missing.length === 0) return;
    const names = missing.map(escapeName).join(', ');
    await printLine(this.#stderr, `saltbridge: no accepted key: ${names}`);
  }

  async #tellProblem(problem: string | undefined): Promise<void> {
    if (problem !== undefined) await printLine(this.#stderr, brokenTarget(problem));
  }

  async #finish(): Promise<number> {
    if (this.#options.isStatic) await this.#print(formatReturns(this.#returns, this.#options));
    if (!this.#returns.some(({ isFailure }) => isFailure)) return exitCodes.ok;
    await printLine(this.#stderr, 'ERROR: Minions returned with non-zero exit code');
    return exitCodes.failure;
  }

  async #nobodyMatched(): Promise<number> {
    await this.#print('No minions matched the target. No command was sent, no jid was assigned.');
    await this.#print(formatReturns([], this.#options));
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
