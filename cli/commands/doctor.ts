import type { Command } from 'commander';
import { examine } from '../../master/index.ts';
import { configOption, jsonOption, logLevelOption } from '../common-options.ts';
import type { CommandContext } from '../context.ts';
import { CommandError } from '../errors.ts';
import { exitCodes } from '../exit-codes.ts';
import { doctorText } from '../output/doctor.ts';
import { printJson, printLine } from '../print.ts';

interface DoctorOptions {
  readonly configDir: string;
  readonly json?: boolean;
}

/** `saltbridge doctor`. */
export function addDoctorCommand(program: Command, context: CommandContext): void {
  program
    .command('doctor')
    .description('look for what is wrong with a master, running or not; changes nothing')
    .addOption(configOption())
    .addOption(jsonOption())
    .addOption(logLevelOption())
    .action(async ({ configDir, json }: DoctorOptions) => {
      await refuseTenants(context, configDir);
      const report = await examine({
        directory: configDir,
        openApi: () => context.openApi(configDir),
      });
      if (json) await printJson(context.stdout, report);
      else await printLine(context.stdout, doctorText(report));
      if (report.findings.length > 0) context.setExitCode(exitCodes.failure);
    });
}

/** Whatever else is wrong with a configuration is what the doctor is asked for. */
async function refuseTenants({ openApi }: CommandContext, configDir: string): Promise<void> {
  try {
    await openApi(configDir);
  } catch (error) {
    if (error instanceof CommandError && error.code === 'ERR_TENANTS') throw error;
  }
}
