import type { Command } from 'commander';
import { loadMasterConfig } from '#config';
import {
  type AuditFilter,
  type AuditRecord,
  type AuditReport,
  type MasterApi,
  readAuditLog,
  verifyAudit,
  verifyAuditLog,
  verifyCopiedLogs,
} from '#master';
import type { CommandContext } from '../context.ts';
import { exitCodes } from '../errors.ts';
import { isMasterNotRunning } from '../offline-master.ts';
import { parseSince, withCommonOptions } from '../options.ts';
import { escapeName, printJson, printLine } from '../terminal.ts';

interface AuditOptions {
  readonly configDir: string;
  readonly json?: boolean;
}

interface ShowOptions extends AuditOptions, Omit<AuditFilter, 'since'> {
  readonly since?: string;
}

interface VerifyOptions extends AuditOptions {
  readonly members?: string;
}

/** Defines `saltbridge audit`, which reads and verifies the audit log. */
export function defineAudit(command: Command, context: CommandContext): void {
  withCommonOptions(
    command
      .command('show')
      .description('print the records of the audit log, oldest first')
      .option(
        '--since <time>',
        'print only records since this time, given as an age (30m, 1h, 7d) or a date',
      )
      .option(
        '--who <name>',
        'print only records of actions of this minion, user, service or token',
      )
      .option(
        '--action <name>',
        'print only records of this action, or of all actions that begin with this word: job, key, …',
      )
      .option(
        '--minion <id>',
        'print only actions that this minion performed, or that were performed on it',
      )
      .option('--jid <jid>', 'print only records of this job')
      .option(
        '--outcome <word>',
        'print only records with this outcome: done, failed, permitted, denied or expired',
      ),
  ).action((options: ShowOptions) => showRecords(options, context));
  withCommonOptions(
    command
      .command('verify')
      .description('verify that the audit log, or copies of its files, have not been changed')
      .argument('[files...]', 'copied files, oldest first (default: the audit log)')
      .option(
        '--members <directory>',
        'directory with copies of the audit logs of all cluster members, in one subdirectory per member',
      ),
  ).action((files: readonly string[], options: VerifyOptions) =>
    verifyRecords(files, options, context),
  );
}

async function showRecords(options: ShowOptions, context: CommandContext): Promise<void> {
  const { configDir, json, since, ...filter } = options;
  const from = since === undefined ? {} : { since: parseSince(since) };
  const { config } = await loadMasterConfig(configDir);
  await flushAudit(configDir, context);
  for await (const record of readAuditLog(config, { ...filter, ...from })) {
    await printLine(context.stdout, json ? JSON.stringify(record) : formatRecord(record));
  }
}

async function verifyRecords(
  files: readonly string[],
  { configDir, json, members }: VerifyOptions,
  context: CommandContext,
): Promise<void> {
  if (members !== undefined) return verifyMembers(members, json === true, context);
  const report =
    files.length > 0 ? await verifyAudit(files) : await verifyMasterLog(configDir, context);
  if (json) await printJson(context.stdout, report);
  else await printLine(context.stdout, formatReport(report));
  if (report.problems.length > 0) context.setExitCode(exitCodes.failure);
}

async function verifyMembers(
  directory: string,
  isJson: boolean,
  context: CommandContext,
): Promise<void> {
  const report = await verifyCopiedLogs(directory);
  if (isJson) await printJson(context.stdout, report);
  else {
    for (const { member, ...log } of report.members) {
      await printLine(context.stdout, `${escapeName(member)}:\n${formatReport(log)}`);
    }
  }
  if (report.members.some(({ problems }) => problems.length > 0)) {
    context.setExitCode(exitCodes.failure);
  }
}

async function verifyMasterLog(configDir: string, context: CommandContext): Promise<AuditReport> {
  const { config } = await loadMasterConfig(configDir);
  return verifyAuditLog(config, await flushAudit(configDir, context));
}

/**
 * Makes the running master write its buffered audit records to the log. Returns the last record of
 * the log, or `null` if the log is empty. Returns `undefined` if no master is running.
 */
async function flushAudit(
  configDir: string,
  context: CommandContext,
): Promise<Awaited<ReturnType<MasterApi['audit']['flush']>> | null | undefined> {
  const api = await context.openApi(configDir);
  try {
    return await api.audit.flush();
  } catch (error) {
    if (!isMasterNotRunning(error)) throw error;
    return undefined;
  }
}

function formatRecord(record: AuditRecord): string {
  const { sequence, time, who, action, what, target, on, onCount, rule, outcome } = record;
  const actor = who.name === '' ? who.kind : `${who.kind} ${who.name}`;
  const { jid, count, detail } = record;
  const parts = [
    `${sequence} ${time} ${actor}: ${action}`,
    what,
    target === undefined ? undefined : `to ${target}`,
    on === undefined ? undefined : `on ${on.join(',') || 'nobody'}`,
    onCount === undefined ? undefined : `and ${onCount - (on?.length ?? 0)} more`,
    record.arguments === undefined ? undefined : `arguments ${record.arguments}`,
    outcome,
    count === undefined ? undefined : `${count} times`,
    rule === undefined ? undefined : `by ${rule}`,
    jid === undefined ? undefined : `jid ${jid}`,
    detail === undefined ? undefined : `(${detail})`,
  ];
  return escapeName(parts.filter((part) => part !== undefined).join(' '));
}

function formatReport(report: AuditReport): string {
  const { records, first, last, isEndKnown, isUnfinished, problems } = report;
  const lines = problems.map(
    ({ kind, file, line, reason }) => `${kind}: ${file}:${line}: ${reason}`,
  );
  const summary = problems.length === 0 ? 'unchanged' : `${problems.length} problems`;
  return [
    ...lines,
    ...(isUnfinished
      ? ['the last line is incomplete: a master is writing it, or crashed while writing it']
      : []),
    ...(isEndKnown ? [] : ['cannot determine whether records after the last one were deleted']),
    `${records} records, ${first} to ${last}: ${summary}`,
  ]
    .map(escapeName)
    .join('\n');
}
