/**
 * `saltbridge acl learn` and `saltbridge acl replay`. Both use the decisions that the running
 * master has recorded.
 */

import type { Command } from 'commander';
import { loadCandidatePolicy } from '#config';
import type { ReplayReport } from '#master';
import type { CommandContext } from '../context.ts';
import { exitCodes } from '../errors.ts';
import { parseSince, withCommonOptions } from '../options.ts';
import { learnedText } from '../output/learned-text.ts';
import { escapeName, printJson, printLine } from '../terminal.ts';

interface SinceOptions {
  readonly configDir: string;
  readonly json?: boolean;
  readonly since?: string;
}

interface LearnOptions extends SinceOptions {
  readonly generalise?: boolean;
  readonly forget?: boolean;
}

/**
 * Adds `saltbridge acl learn`, which prints a policy that permits the requests recorded as denied.
 */
export function addLearnCommand(acl: Command, context: CommandContext): void {
  withCommonOptions(
    acl
      .command('learn')
      .description('print the smallest policy that permits all requests recorded as denied')
      .option(
        '--since <time>',
        'use only requests since this time, given as an age (30m, 1h, 7d) or a date',
      )
      .option(
        '--generalise',
        'write one rule for tags that differ only in the id of the sending minion',
      )
      .option('--forget', 'after printing, delete the records of denied requests'),
  ).action(async ({ configDir, json, since, generalise, forget }: LearnOptions) => {
    const api = await context.openApi(configDir);
    const learned = await api.acl.learn({
      ...sinceSelection(since),
      ...(generalise === undefined ? {} : { generalise }),
    });
    if (json) await printJson(context.stdout, learned);
    else await printLine(context.stdout, learnedText(learned).trimEnd());
    if (forget) await api.acl.forget();
  });
}

/**
 * Adds `saltbridge acl replay`, which lists the recorded decisions that a policy file would change.
 */
export function addReplayCommand(acl: Command, context: CommandContext): void {
  withCommonOptions(
    acl
      .command('replay')
      .description('list the recorded decisions that the policy in a file would change')
      .argument('<file>', 'policy file, in the format of master.d')
      .option(
        '--since <time>',
        'use only decisions since this time, given as an age (30m, 1h, 7d) or a date',
      ),
  ).action(async (file: string, { configDir, json, since }: SinceOptions) => {
    const { rules } = await loadCandidatePolicy(configDir, file);
    const api = await context.openApi(configDir);
    const report = await api.acl.replay({ rules, ...sinceSelection(since) });
    if (json) await printJson(context.stdout, report);
    else await printLine(context.stdout, formatReplayReport(report));
    const isOther = report.changes.some(({ kind }) => kind !== 'other-rule');
    if (isOther) context.setExitCode(exitCodes.failure);
  });
}

function sinceSelection(since: string | undefined): { readonly since?: number } {
  return since === undefined ? {} : { since: parseSince(since) };
}

function formatReplayReport({
  decisions,
  requests,
  uncertain,
  missed,
  changes,
}: ReplayReport): string {
  const notes = [
    ...(uncertain === 0
      ? []
      : [`${uncertain} of these changes are uncertain, because their records are incomplete`]),
    ...(missed === 0 ? [] : [`${missed} requests since the start of the master were not recorded`]),
  ];
  const summary = `${decisions} recorded decisions on ${requests} requests; ${changes.length} would change`;
  return [...changes.map(formatReplayChange), [summary, ...notes].join('; ')]
    .map(escapeName)
    .join('\n');
}

function formatReplayChange({ kind, recorded, decision }: ReplayReport['changes'][number]): string {
  const { minion, action, texts, count, lastAt, rule } = recorded;
  const asked = `${minion} ${action} ${texts.join(',')}`;
  const times = `${count} times, last ${new Date(lastAt).toISOString()}`;
  return `${kind}: ${asked} (${times}): decided by rule ${rule}; with this policy, rule ${decision.rule} would decide: ${decision.reason}`;
}
