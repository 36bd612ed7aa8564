/** Follows batches, and prints their returns. */

import {
  type BatchRequest,
  type BatchUpdate,
  isFailureCode,
  type JobReturn,
  type MasterApi,
  returnerOf,
} from '#master';
import type { WireValue } from '#minion-protocol';
import { textOrder } from '#template/python/comparison.ts';
import type { CommandContext } from '../context.ts';
import { exitCodes } from '../errors.ts';
import type { OutputSink } from '../output/output-options.ts';
import {
  formatData,
  formatReturns,
  type MinionReturn,
  type OutputOptions,
} from '../output/outputters.ts';
import { pythonRepr } from '../output/value-text.ts';
import { escapeLines, escapeName, printLine } from '../terminal.ts';
import { highestCode, noMinionsMatched, reportNoReturn, reportSilent } from './follow-salt-job.ts';
import { formatInterrupted, printLeftOut } from './salt-output.ts';

/** Display options of a batch. */
interface BatchFollowerOptions {
  readonly output: OutputOptions;
  readonly sink: OutputSink;
  /** Whether all returns are printed together at the end. */
  readonly isStatic: boolean;
}

/**
 * Follows a batch and prints the output of `salt --batch` [salt cli/batch.py]. A follower can
 * follow only one batch.
 */
export class BatchFollower {
  readonly #stdout: CommandContext['stdout'];
  readonly #stderr: CommandContext['stderr'];
  readonly #options: BatchFollowerOptions;
  /** Minions' returns, which are printed at the end. Used only with `--static`. */
  readonly #returns: MinionReturn[] = [];
  readonly #silent: string[] = [];
  #jid: string | undefined;
  #code: number = exitCodes.ok;

  constructor(context: Pick<CommandContext, 'stdout' | 'stderr'>, options: BatchFollowerOptions) {
    this.#stdout = context.stdout;
    this.#stderr = context.stderr;
    this.#options = options;
  }

  /**
   * Runs the batch, and prints its progress and returns.
   * @returns the exit code. Without `--static`, it is the highest retcode. With `--static`, it is 0
   * if a minion returned, otherwise 2
   */
  async follow(
    jobs: MasterApi['jobs'],
    request: BatchRequest,
    signal: AbortSignal,
  ): Promise<number> {
    try {
      for await (const update of jobs.batch(request, signal)) {
        if (signal.aborted) break;
        await this.#show(update);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
    if (!signal.aborted) return this.#options.isStatic ? this.#finishWhole(request) : this.#code;
    const text = '\nExiting gracefully on Ctrl-c';
    await printLine(this.#stderr, this.#jid === undefined ? text : formatInterrupted(this.#jid));
    return exitCodes.interrupted;
  }

  async #show(update: BatchUpdate): Promise<void> {
    switch (update.type) {
      case 'gathered':
        return this.#showGathered(update);
      case 'published': {
        this.#jid = update.jid;
        if (this.#options.isStatic) return;
        const minions = pythonRepr([...update.minions].sort(textOrder));
        return printLine(this.#stdout, `\nExecuting run on ${minions}\n`);
      }
      case 'return':
        return this.#showReturn(update.jid, update);
      case 'running':
        return;
      case 'finished':
        for (const minion of [...update.silent, ...update.reconnecting]) {
          if (this.#options.isStatic) {
            this.#silent.push(minion);
            this.#returns.push({ minion, value: {}, isFailure: true });
          } else await this.#write(new Map([[minion, {}]]), undefined);
        }
        return;
      case 'ended':
        if (update.failed === undefined) return;
        return printLine(
          this.#stderr,
          `[ERROR   ] Minion ${escapeName(update.failed)} returned with non-zero exit code. ` +
            'Batch run stopped due to failhard',
        );
    }
  }

  async #showGathered({
    minions,
    silent,
    isNarrowed,
  }: Extract<BatchUpdate, { type: 'gathered' }>): Promise<void> {
    if (isNarrowed) await printLeftOut(this.#stderr, { missing: [], isNarrowed });
    if (minions.length === 0) {
      if (silent.length > 0) this.#silent.push(...silent);
      else for (const line of this.#noBatchLines()) await printLine(this.#stdout, line);
      return;
    }
    if (this.#options.isStatic) {
      this.#silent.push(...silent);
      return;
    }
    for (const minion of silent) {
      const line = `Minion ${escapeName(minion)} did not respond. No job will be sent.`;
      await printLine(this.#stdout, line);
    }
  }

  #noBatchLines(): readonly string[] {
    return this.#options.isStatic ? [noMinionsMatched] : noBatch;
  }

  async #finishWhole({ fun }: BatchRequest): Promise<number> {
    const { output, sink } = this.#options;
    await reportSilent(this.#stderr, this.#silent);
    if (this.#returns.length === 0) return reportNoReturn(this.#stderr);
    await sink.write(formatReturns(this.#returns, fun, output));
    return exitCodes.ok;
  }

  async #showReturn(jid: string, result: JobReturn): Promise<void> {
    const { retcode, return: value, out } = result;
    if (this.#options.isStatic) {
      const isFailure = isFailureCode(retcode);
      this.#returns.push({ minion: returnerOf(result), value, isFailure });
      return;
    }
    const code = highestCode(retcode);
    this.#code = Math.max(this.#code, code);
    const data = new Map<string, WireValue>([
      ['retcode', code],
      ['jid', jid],
      [returnerOf(result), value],
    ]);
    await this.#write(data, out);
  }

  async #write(data: Map<string, WireValue>, out: string | undefined): Promise<void> {
    await this.#options.sink.write(
      escapeLines(formatData(new Map(data), out, this.#options.output)),
    );
  }
}

const noBatch = [noMinionsMatched, 'No minions matched the target.'];
