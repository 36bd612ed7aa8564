/** `saltbridge master`: runs a master. */

import { type Command, Option } from 'commander';
import type { LogLevel } from '#config';
import { planUserChange } from '#server/process/account.ts';
import type { CommandContext } from '../context.ts';
import { configOption, logLevelOption } from '../options.ts';
import { printLine } from '../terminal.ts';
import { startDaemon } from './start-daemon.ts';

interface MasterOptions {
  readonly configDir: string;
  readonly daemon?: boolean;
  readonly logLevel?: LogLevel;
  readonly console: boolean;
}

/** Defines the options and the action of the command. */
export function defineMaster(command: Command, context: CommandContext): void {
  command
    .addOption(configOption())
    .option('-d, --daemon', 'run in the background; the command returns when the master is ready')
    .addOption(logLevelOption())
    // `-d` passes this option to the process that it starts. The standard error of this process is
    // the log file from the beginning.
    .addOption(new Option('--no-console', 'log only to log_file').hideHelp())
    .action(async ({ configDir, daemon, logLevel, console }: MasterOptions) => {
      if (daemon) {
        await printLine(context.stdout, `${await startInBackground(configDir, logLevel)}`);
      } else {
        // Load this module on demand, because it includes all code that serves minions.
        const { runMaster } = await import('#server/process/master-process.ts');
        await runMaster(configDir, logLevel, console ? context.stderr : undefined);
      }
    });
}

async function startInBackground(configDir: string, logLevel?: LogLevel): Promise<number> {
  const { loadServedConfig } = await import('#server/process/load-served-config.ts');
  const { config, tenants } = (await loadServedConfig(configDir)).loaded;
  const change = planUserChange(config.user);
  const owner = change.kind === 'become' ? change.account : undefined;
  const program = process.argv.slice(1, 2);
  const level = logLevel === undefined ? [] : ['-l', logLevel];
  const argv = [...program, 'master', '-c', configDir, '--no-console', ...level];
  // Wait for the last tenant only, because tenants start one after the other.
  const { socket } = tenants.at(-1)?.config ?? config;
  return startDaemon(argv, { socket, logFile: config.logFile }, owner);
}
