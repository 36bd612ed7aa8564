/** `saltbridge migrate`: prepares the migration from a salt-master. */

import { chown, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { type Command, Option } from 'commander';
import {
  checkMigration,
  type MigrationFinding,
  type MigrationOutcome,
  type MigrationReport,
  policyText,
} from '#server/ops.ts';
import type { CommandContext } from '../context.ts';
import { CommandError, exitCodes } from '../errors.ts';
import { jsonOption, logLevelOption } from '../options.ts';
import { escapeLines, escapeName, printJson, printLine } from '../terminal.ts';
import { writeNewFile } from './key-files.ts';

const headings: Readonly<Record<MigrationOutcome, string>> = {
  refused: 'Refused: cannot be used with saltbridge; change it before the migration',
  ignored: 'Ignored: has no effect with saltbridge',
  honoured: 'Honoured: works unchanged with saltbridge',
};

/**
 * Returns the report as text.
 * @param policyFile - file to which the policy was written; without it, the text contains the
 * policy
 */
function formatMigrationReport(report: MigrationReport, policyFile?: string): string {
  const sections = (['refused', 'ignored', 'honoured'] as const).flatMap((outcome) =>
    formatMigrationSection(
      outcome,
      report.findings.filter((it) => it.outcome === outcome),
    ),
  );
  const policy =
    policyFile === undefined
      ? [
          'Smallest policy for this configuration, a file for master.d',
          '',
          escapeLines(policyText(report)),
        ]
      : [`The smallest policy for this configuration is in ${escapeName(policyFile)}.`];
  return [...sections, ...policy, '', formatMigrationSummary(report)].join('\n');
}

function formatMigrationSection(
  outcome: MigrationOutcome,
  findings: readonly MigrationFinding[],
): string[] {
  if (findings.length === 0) return [];
  return [headings[outcome], '', ...findings.flatMap(formatMigrationFinding), ''];
}

function formatMigrationFinding({ name, file, line, meaning, remedy }: MigrationFinding): string[] {
  const place = line === 0 ? file : `${file}:${line}`;
  return [
    `  ${escapeName(name)} (${escapeName(place)})`,
    `    ${escapeName(meaning)}`,
    ...(remedy === '' ? [] : [`    -> ${escapeName(remedy)}`]),
  ];
}

function formatMigrationSummary({ counts, directory }: MigrationReport): string {
  const parts = Object.entries(counts).map(([outcome, count]) => `${count} ${outcome}`);
  return `${escapeName(directory)}: ${parts.join(', ')}. Nothing was changed.`;
}

interface MigrateOptions {
  readonly write?: string;
  readonly policy?: string;
  readonly json?: boolean;
}

/**
 * Defines `saltbridge migrate`, which reports how saltbridge treats the configuration of a
 * salt-master.
 */
export function defineMigrate(command: Command, context: CommandContext): void {
  command
    .command('check')
    .description('report which parts of a salt-master configuration work with saltbridge')
    .argument('[dir]', 'configuration directory of salt-master', '/etc/salt')
    .option(
      '--write <file>',
      'write the necessary policy rules to this new file, for example in master.d; the file gets the owner and the mode of the main configuration file',
    )
    .addOption(
      new Option(
        '--policy <file>',
        'write the necessary policy rules to this new file, which must be outside of the checked directory and gets the mode 0644',
      ).conflicts('write'),
    )
    .addOption(jsonOption())
    .addOption(logLevelOption())
    .action(async (directory: string, options: MigrateOptions) => {
      await checkSite(directory, options, context);
    });
}

async function checkSite(
  directory: string,
  { policy, write, json }: MigrateOptions,
  context: CommandContext,
): Promise<void> {
  if (policy !== undefined) await rejectPathInside(policy, directory);
  const report = await checkMigration(directory);
  if (policy !== undefined) await writeNewFile(policy, policyText(report), 0o644);
  if (write !== undefined) await writePolicy(write, directory, policyText(report));
  const { stdout, setExitCode } = context;
  if (json) await printJson(stdout, { ...report, policy: policyText(report) });
  else await printLine(stdout, formatMigrationReport(report, write ?? policy));
  if (report.counts.refused > 0) setExitCode(exitCodes.failure);
}

/**
 * Writes a configuration file with the owner and the permissions of the main file, so that the
 * service can read it.
 */
async function writePolicy(file: string, directory: string, text: string): Promise<void> {
  const main = await stat(path.join(directory, 'master')).catch(() => undefined);
  await writeNewFile(file, text, 0o600 | ((main?.mode ?? 0) & 0o044));
  if (main !== undefined && process.getuid?.() === 0) await chown(file, main.uid, main.gid);
}

/** Rejects an output path inside the checked directory. */
async function rejectPathInside(file: string, directory: string): Promise<void> {
  const folder = await realpath(path.dirname(path.resolve(file)));
  const inside = path.relative(await realpath(directory), folder);
  if (inside === '..' || inside.startsWith('../')) return;
  throw new CommandError(
    'ERR_ARGS',
    `--policy ${file} is inside the checked directory ${directory}; write the file elsewhere, review it, and then move it yourself`,
  );
}
