import { realpath } from 'node:fs/promises';
import path from 'node:path';
import { type Command, Option } from 'commander';
import { checkMigration, policyText } from '../../master/index.ts';
import { jsonOption, logLevelOption } from '../common-options.ts';
import type { CommandContext } from '../context.ts';
import { CommandError } from '../errors.ts';
import { exitCodes } from '../exit-codes.ts';
import { writeNewFile } from '../key-files.ts';
import { migrationText } from '../output/migration.ts';
import { printJson, printLine } from '../print.ts';

interface MigrateOptions {
  readonly write?: string;
  readonly policy?: string;
  readonly json?: boolean;
}

/** `saltbridge migrate`. */
export function addMigrateCommand(program: Command, context: CommandContext): void {
  program
    .command('migrate')
    .description('what moving from salt-master takes')
    .command('check')
    .description('report what a configuration uses, and what becomes of it; changes nothing')
    .argument('[dir]', "salt-master's configuration directory", '/etc/salt')
    .option('--write <file>', 'write the least policy to a new file (0600), for master.d')
    .addOption(
      new Option('--policy <file>', 'the same (0644), outside of the directory').conflicts('write'),
    )
    .addOption(jsonOption())
    .addOption(logLevelOption())
    .action(async (directory: string, options: MigrateOptions) => {
      await check(directory, options, context);
    });
}

async function check(
  directory: string,
  { policy, write, json }: MigrateOptions,
  context: CommandContext,
): Promise<void> {
  if (policy !== undefined) await refuseInside(policy, directory);
  const report = await checkMigration(directory);
  if (policy !== undefined) await writeNewFile(policy, policyText(report), 0o644);
  if (write !== undefined) await writeNewFile(write, policyText(report), 0o600);
  const { stdout, setExitCode } = context;
  if (json) await printJson(stdout, { ...report, policy: policyText(report) });
  else await printLine(stdout, migrationText(report, write ?? policy));
  if (report.counts.refused > 0) setExitCode(exitCodes.failure);
}

/** The directory that is looked at is not written to, not even when somebody asks for it. */
async function refuseInside(file: string, directory: string): Promise<void> {
  const folder = await realpath(path.dirname(path.resolve(file)));
  const inside = path.relative(await realpath(directory), folder);
  if (inside === '..' || inside.startsWith('../')) return;
  throw new CommandError(
    'ERR_ARGS',
    `--policy ${file} lies in ${directory}, which is not changed; write it elsewhere, read it, and put it there yourself`,
  );
}
