import type { Command } from 'commander';
import { createMaster, type LogLevel, loadMasterConfig } from '../../master/index.ts';
import { configOption, logLevelOption } from '../common-options.ts';
import type { CommandContext } from '../context.ts';
import { startDaemon } from '../daemon.ts';
import { createLogger } from '../logger.ts';
import { printLine } from '../print.ts';
import { createServiceNotifier } from '../service-manager.ts';
import { terminationSignal } from '../signals.ts';

interface MasterOptions {
  readonly configDir: string;
  readonly daemon?: boolean;
  readonly logLevel?: LogLevel;
}

/** `saltbridge master`. */
export function addMasterCommand(program: Command, context: CommandContext): void {
  program
    .command('master')
    .description('run a master')
    .addOption(configOption())
    .option('-d, --daemon', 'run in the background; return when it answers')
    .addOption(logLevelOption())
    .action(async (options: MasterOptions) => {
      if (options.daemon) await printLine(context.stdout, `${await startInBackground(options)}`);
      else await runMaster(options, context);
    });
}

async function runMaster(options: MasterOptions, { stderr }: CommandContext): Promise<void> {
  const terminated = terminationSignal();
  const { config, warnings } = await loadMasterConfig(options.configDir);
  const logger = createLogger(options.logLevel ?? config.logLevel, stderr);
  for (const { key: option, message: reason, ...place } of warnings) {
    logger.warn({ option, reason, ...place }, 'configuration');
  }
  const master = await createMaster({ config, logger });
  await master.start();
  const notify = createServiceNotifier(logger);
  const { requestPort, publishPort } = await master.status();
  await notify('READY=1', `STATUS=Serving minions on ports ${publishPort} and ${requestPort}`);
  const signal = await terminated;
  logger.info({ signal }, 'closing');
  await notify('STOPPING=1', 'STATUS=Closing');
  await master.close();
}

async function startInBackground({ configDir, logLevel }: MasterOptions): Promise<number> {
  const { config } = await loadMasterConfig(configDir);
  const level = logLevel === undefined ? [] : ['-l', logLevel];
  const program = process.argv.slice(1, 2);
  return startDaemon([...program, 'master', '-c', configDir, ...level], config);
}
