/** `saltbridge doctor`: examines the configuration, the files and the machine of a master. */

import type { Command } from 'commander';
import { type DoctorFinding, type DoctorReport, runDoctor } from '#server/ops.ts';
import type { CommandContext } from '../context.ts';
import { CommandError, exitCodes } from '../errors.ts';
import { withCommonOptions } from '../options.ts';
import { escapeName, printJson, printLine } from '../terminal.ts';

function formatDoctorReport({ findings, isRunning, versions }: DoctorReport): string {
  const known = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  return [
    ...findings.flatMap(formatDoctorFinding),
    `${known.join(', ')}; ${isRunning ? 'a master runs' : 'no master is running'}.`,
    findings.length === 0 ? 'No problem was found.' : formatFindingCounts(findings),
  ].join('\n');
}

function formatDoctorFinding({
  severity,
  code,
  subject,
  problem,
  remedy,
}: DoctorFinding): string[] {
  return [
    `${severity} ${code}: ${escapeName(subject)}`,
    `  ${escapeName(problem)}`,
    `  -> ${escapeName(remedy)}`,
    '',
  ];
}

function formatFindingCounts(findings: readonly DoctorFinding[]): string {
  const errors = findings.filter(({ severity }) => severity === 'error').length;
  return `${errors} errors, ${findings.length - errors} warnings.`;
}

interface DoctorOptions {
  readonly configDir: string;
  readonly json?: boolean;
}

/** Defines `saltbridge doctor`, which lists problems of a master without changing anything. */
export function defineDoctor(command: Command, context: CommandContext): void {
  withCommonOptions(command).action(async ({ configDir, json }: DoctorOptions) => {
    await rejectTenants(context, configDir);
    const report = await runDoctor({
      directory: configDir,
      openApi: () => context.openApi(configDir),
    });
    if (json) await printJson(context.stdout, report);
    else await printLine(context.stdout, formatDoctorReport(report));
    if (report.findings.length > 0) context.setExitCode(exitCodes.failure);
  });
}

/** Rejects a configuration with tenants. `runDoctor` finds all other problems. */
async function rejectTenants({ openApi }: CommandContext, configDir: string): Promise<void> {
  try {
    await openApi(configDir);
  } catch (error) {
    if (error instanceof CommandError && error.code === 'ERR_TENANTS') throw error;
  }
}
