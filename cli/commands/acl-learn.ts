/** `saltbridge acl learn` and `saltbridge acl replay`: a policy from what was, and against it. */
import type { Command } from 'commander';
import {
  learnedText,
  loadCandidatePolicy,
  type ReplayChange,
  type ReplayReport,
} from '../../master/index.ts';
import { configOption, jsonOption, logLevelOption } from '../common-options.ts';
import type { CommandContext } from '../context.ts';
import { exitCodes } from '../exit-codes.ts';
import { escapeName } from '../output/escape.ts';
import { printJson, printLine } from '../print.ts';
import { readSince } from '../since.ts';

interface SinceOptions {
  readonly configDir: string;
  readonly json?: boolean;
  readonly since?: string;
}

interface LearnOptions extends SinceOptions {
  readonly generalise?: boolean;
  readonly forget?: boolean;
}

export function addLearnCommand(acl: Command, context: CommandContext): void {
  acl
    .command('learn')
    .description('print the least policy that permits what no rule permitted; changes nothing')
    .option('--since <time>', 'what was asked for since then: 30m, 1h, 7d, or a date')
    .option('--generalise', 'one rule for all whose tags differ in their own ids alone')
    .option('--forget', 'forget what is recorded, afterwards')
    .addOption(configOption())
    .addOption(jsonOption())
    .addOption(logLevelOption())
    .action(async ({ configDir, json, since, generalise, forget }: LearnOptions) => {
      const api = await context.openApi(configDir);
      const learned = await api.acl.learn({
        ...readOptions(since),
        ...(generalise === undefined ? {} : { generalise }),
      });
      if (json) await printJson(context.stdout, learned);
      else await printLine(context.stdout, learnedText(learned).trimEnd());
      if (forget) await api.acl.forget();
    });
}

export function addReplayCommand(acl: Command, context: CommandContext): void {
  acl
    .command('replay')
    .description('say what another policy would have decided otherwise; changes nothing')
    .argument('<file>', 'the policy, as it would stand in master.d')
    .option('--since <time>', 'what was decided since then: 30m, 1h, 7d, or a date')
    .addOption(configOption())
    .addOption(jsonOption())
    .addOption(logLevelOption())
    .action(async (file: string, { configDir, json, since }: SinceOptions) => {
      const { rules } = await loadCandidatePolicy(configDir, file);
      const api = await context.openApi(configDir);
      const report = await api.acl.replay({ rules, ...readOptions(since) });
      if (json) await printJson(context.stdout, report);
      else await printLine(context.stdout, formatReport(report));
      const isOther = report.changes.some(({ kind }) => kind !== 'other-rule');
      if (isOther) context.setExitCode(exitCodes.failure);
    });
}

function readOptions(since: string | undefined): { readonly since?: number } {
  return since === undefined ? {} : { since: readSince(since) };
}

function formatReport({ decisions, requests, uncertain, missed, changes }: ReplayReport): string {
  const notes = [
    ...(uncertain === 0 ? [] : [`${uncertain} of them without all of their data`]),
    ...(missed === 0 ? [] : [`${missed} requests since the start were not recorded`]),
  ];
  const summary = `${decisions} decisions on ${requests} requests, ${changes.length} otherwise`;
  return [...changes.map(formatChange), [summary, ...notes].join('; ')].map(escapeName).join('\n');
}

function formatChange({ kind, recorded, decision }: ReplayChange): string {
  const { minion, action, texts, count, lastAt, rule } = recorded;
  const asked = `${minion} ${action} ${texts.join(',')}`;
  const times = `${count} times, last ${new Date(lastAt).toISOString()}`;
  return `${kind}: ${asked} (${times}): was by ${rule}, would be by ${decision.rule}: ${decision.reason}`;
}
