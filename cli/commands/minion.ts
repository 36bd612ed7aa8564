import type { Command } from 'commander';
import type { LogLevel } from '#config';
import { createMinion, dialZeromq, openMinionKeys } from '#minion-protocol';
import { createLogger } from '#server/process/log.ts';
import { terminationSignal } from '#server/process/signals.ts';
import type { CommandContext } from '../context.ts';
import { logLevelOption, parsePort } from '../options.ts';

interface MinionOptions {
  readonly master: string;
  readonly masterPort: number;
  readonly id: string;
  readonly stateDir: string;
  readonly masterFinger?: string;
  readonly logLevel?: LogLevel;
}

/** Defines `saltbridge minion`, which runs the embedded minion as a process of its own. */
export function defineMinion(command: Command, context: CommandContext): void {
  command
    .option('--master <host>', 'address of the master', '127.0.0.1')
    .option(
      '--master-port <n>',
      'port for requests of minions (ret_port of the master)',
      parsePort,
      4506,
    )
    .option(
      '--master-finger <fingerprint>',
      'fingerprint of the key of the master; other masters are rejected',
    )
    .requiredOption('--id <id>', 'id of the minion')
    .requiredOption('--state-dir <dir>', 'directory for the keys of the minion')
    .addOption(logLevelOption())
    .action((options: MinionOptions) => runMinion(options, context));
}

async function runMinion(options: MinionOptions, { stderr }: CommandContext): Promise<void> {
  const { id, master, masterPort, masterFinger, stateDir } = options;
  const logger = createLogger(options.logLevel ?? 'info', stderr).child({ minion: id });
  const terminated = terminationSignal();
  const minion = createMinion({
    id,
    keys: await openMinionKeys(stateDir),
    transport: dialZeromq({ host: master, requestPort: masterPort }),
    ...(masterFinger === undefined ? {} : { masterFinger }),
    onState: ({ state }) => logger.info({ state }, 'state'),
    onError: (error) =>
      logger.warn({ err: error }, 'an operation of the minion failed; the minion keeps running'),
  });
  await Promise.race([minion.start().then(() => terminated), terminated]);
  await minion.stop();
}
