/**
 * Output of `saltbridge salt`: documentation, summaries, matching minions, and minions without a
 * return.
 */

import type { TargetPlan } from '#master';
import type { WireValue } from '#minion-protocol';
import { textOrder } from '#template/python/comparison.ts';
import type { CommandContext } from '../context.ts';
import { formatData, type MinionReturn, type OutputOptions } from '../output/outputters.ts';
import { mapEntries, pythonStr } from '../output/value-text.ts';
import { escapeLines, escapeName, printLine } from '../terminal.ts';

/**
 * Returns the documentation of each function, sorted by function. If several minions document a
 * function, uses the text of the first minion.
 */
export function formatFunctionDocs(
  results: readonly MinionReturn[],
  options: OutputOptions,
): string[] {
  const docs = new Map<string, WireValue>();
  for (const { value } of results) {
    for (const [key, text] of mapEntries(value) ?? []) {
      const fun = pythonStr(key);
      if (!docs.has(fun) && text !== null && text !== '') docs.set(fun, text);
    }
  }
  const sorted = [...docs].sort(([left], [right]) => textOrder(left, right));
  return sorted.map(([fun, text]) =>
    options.outputter === undefined
      ? `${escapeName(fun)}:\n${escapeLines(pythonStr(text))}\n`
      : formatData(new Map([[fun, text]]), 'nested', options),
  );
}

/** Results of a job, for its summary. */
interface JobSummaryFacts {
  readonly returned: readonly string[];
  /** Minions that did not return. */
  readonly silent: readonly string[];
  /** Minions that returned a failure. They are also in `returned`. */
  readonly failed: readonly string[];
}

const rule = '-'.repeat(43);

/** Returns the summary, which begins with two empty lines. */
export function formatJobSummary(facts: JobSummaryFacts, isVerbose: boolean): string {
  const { returned, silent, failed } = facts;
  const names = (title: string, minions: readonly string[]): string[] =>
    isVerbose && minions.length > 0 ? [`${title}: ${minions.map(escapeName).join(' ')}`] : [];
  return [
    '\n',
    rule,
    'Summary',
    rule,
    `# of minions targeted: ${returned.length + silent.length}`,
    `# of minions returned: ${returned.length}`,
    `# of minions that did not return: ${silent.length}`,
    `# of minions with errors: ${failed.length}`,
    ...names('Minions not responding', silent),
    ...names('Minions with failures', failed),
    rule,
  ].join('\n');
}

/** Returns a line for each minion with the reason why the target matches it. */
export function formatTargetPlan({ minions }: TargetPlan): string {
  return minions
    .map((minion) => `${escapeName(minion.id)}: ${formatTargetReason(minion)}`)
    .join('\n');
}

/** Returns the message for an expression that cannot be evaluated. */
export function formatTargetProblem(problem: string): string {
  return `saltbridge: invalid target: ${escapeName(problem)}`;
}

/** Prints which minions of a target did not receive the job. */
export async function printLeftOut(
  stderr: CommandContext['stderr'],
  { missing, isNarrowed }: { readonly missing: readonly string[]; readonly isNarrowed?: true },
): Promise<void> {
  if (missing.length > 0) {
    const reason = isNarrowed ? 'no accepted key, or not permitted' : 'no accepted key';
    await printLine(stderr, `saltbridge: ${reason}: ${missing.map(escapeName).join(', ')}`);
  }
  if (isNarrowed) await printLine(stderr, narrowedTarget);
}

/**
 * Message for a target from which minions were excluded, because the caller has no rights on them.
 * It contains no minion id.
 */
export const narrowedTarget =
  'saltbridge: your rights do not cover the whole target: the job was sent to the permitted minions only';

function formatTargetReason(minion: TargetPlan['minions'][number]): string {
  switch (minion.reason) {
    case 'matched':
      return `matched by ${minion.by.map(escapeName).join(', ')}`;
    case 'facts-unknown':
      return 'facts unknown';
    case 'missing':
      return 'missing, no accepted key';
  }
}

/**
 * Returns the result that Salt prints for a minion that did not return [salt client/__init__.py
 * get_cli_event_returns].
 */
export function noResponseReturn(minion: string, jid: string): MinionReturn {
  const value = `Minion did not return. [No response]\n${lookUpHint(jid)}`;
  return { minion, value, isFailure: true, out: 'no_return' };
}

/** Returns the result for a minion that did not reconnect after a restart of the master. */
export function reconnectingReturn(minion: string, jid: string): MinionReturn {
  const value = `Minion did not return. [Reconnecting after the restart of the master]\n${lookUpHint(jid)}`;
  return { minion, value, isFailure: true, out: 'no_return' };
}

/** Returns Salt's text for a user who stops following a job [salt scripts.py]. */
export function formatInterrupted(jid: string): string {
  return `\nExiting gracefully on Ctrl-c\nThis job's jid is: ${jid}\n${lookUpHint(jid)}`;
}

function lookUpHint(jid: string): string {
  return [
    'The minions may not have all finished running and any remaining minions will return upon ' +
      'completion. To look up the return data for this job later, run the following command:',
    '',
    `salt-run jobs.lookup_jid ${jid}`,
  ].join('\n');
}
