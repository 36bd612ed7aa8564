import {
  type BatchRequest,
  type BatchUpdate,
  isFailureCode,
  type JobReturn,
  type JobsApi,
  returnerOf,
} from '../master/index.ts';
import type { WireValue } from '../minion-protocol/index.ts';
import type { CommandContext } from './context.ts';
import { exitCodes } from './exit-codes.ts';
import { escapeLines, escapeName } from './output/escape.ts';
import { mapEntries } from './output/map-entries.ts';
import { compareCodePoints } from './output/python.ts';
import { pythonRepr } from './output/python-repr.ts';
import { formatData, type OutputOptions } from './output/returns.ts';
import { leavingEarly } from './output/silence.ts';
import type { OutputSink } from './output-sink.ts';
import { printLine } from './print.ts';

/** How a batch is shown. */
export interface BatchOptions {
  readonly output: OutputOptions;
  readonly sink: OutputSink;
}

/** Follows a batch and prints what `salt --batch` prints [salt cli/batch.py]. For a single use. */
export class BatchFollower {
  readonly #stdout: CommandContext['stdout'];
  readonly #stderr: CommandContext['stderr'];
  readonly #options: BatchOptions;
  #jid: string | undefined;
  #code: number = exitCodes.ok;

  constructor(context: Pick<CommandContext, 'stdout' | 'stderr'>, options: BatchOptions) {
    this.#stdout = context.stdout;
    this.#stderr = context.stderr;
    this.#options = options;
  }

  /** Runs the batch and prints it to its end. @returns the exit code: the highest retcode */
  async follow(jobs: JobsApi, request: BatchRequest, signal: AbortSignal): Promise<number> {
    try {
      for await (const update of jobs.batch(request, signal)) {
        if (signal.aborted) break;
        await this.#show(update);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
    if (!signal.aborted) return this.#code;
    const text = '\nExiting gracefully on Ctrl-c';
    await printLine(this.#stderr, this.#jid === undefined ? text : leavingEarly(this.#jid));
    return exitCodes.interrupted;
  }

  async #show(update: BatchUpdate): Promise<void> {
    switch (update.type) {
      case 'gathered':
        return this.#showGathered(update);
      case 'published': {
        this.#jid = update.jid;
        const minions = pythonRepr([...update.minions].sort(compareCodePoints));
        return printLine(this.#stdout, `\nExecuting run on ${minions}\n`);
      }
      case 'return':
        return this.#showReturn(update.jid, update);
      case 'running':
        return;
      case 'finished':
        for (const minion of [...update.silent, ...update.reconnecting]) {
          await this.#write(new Map([[minion, {}]]), undefined);
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
  }: Extract<BatchUpdate, { type: 'gathered' }>): Promise<void> {
    if (minions.length === 0) {
      const told = silent.length > 0 ? [] : nobodyMatched;
      for (const line of told) await printLine(this.#stdout, line);
      return;
    }
    for (const minion of silent) {
      const line = `Minion ${escapeName(minion)} did not respond. No job will be sent.`;
      await printLine(this.#stdout, line);
    }
  }

  async #showReturn(jid: string, result: JobReturn): Promise<void> {
    const { retcode, return: value, out } = result;
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

const nobodyMatched = [
  'No minions matched the target. No command was sent, no jid was assigned.',
  'No minions matched the target.',
];

/** Several functions have a code each. */
function highestCode(retcode: WireValue): number {
  const codes = (mapEntries(retcode) ?? []).map(([, code]) => highestCode(code));
  if (codes.length > 0) return Math.max(...codes);
  if (typeof retcode === 'number') return retcode;
  return isFailureCode(retcode) ? exitCodes.failure : exitCodes.ok;
}
