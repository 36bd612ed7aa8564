/** A process that is a master: its log, its account, its pidfile, its signals. */
import type { Logger } from 'pino';
import {
  createMaster,
  type LogLevel,
  loadMasterConfig,
  type MasterConfig,
  type MasterStatus,
} from '../master/index.ts';
import { type Account, becomeAccount, planUserChange, type UserChange } from './accounts.ts';
import type { OutputStream } from './context.ts';
import { checkFolders, makeFolders } from './folders.ts';
import { keepHeapSmall } from './heap.ts';
import { openMasterLog } from './logger.ts';
import { PidFile } from './pid-file.ts';
import { readAgain, reload, tellWarnings } from './reload.ts';
import { createServiceNotifier, ServiceReporter } from './service-manager.ts';
import { onSignal, terminationSignal } from './signals.ts';

/**
 * Runs a master until a signal ends it.
 * @param level - goes before `log_level`
 * @param stderr - the console; `undefined`: the log file alone
 * @throws ConfigError, CommandError ERR_USER, and what a master's start throws
 */
export async function runMaster(
  configDirectory: string,
  level: LogLevel | undefined,
  stderr: OutputStream | undefined,
): Promise<void> {
  keepHeapSmall();
  const terminated = terminationSignal();
  const { config, warnings } = await loadMasterConfig(configDirectory);
  const change = planUserChange(config.user);
  const account = change.kind === 'become' ? change.account : undefined;
  const log = openMasterLog(config, { stderr, level, owner: account });
  const { logger } = log;
  const readConfig = (): Promise<MasterConfig> => readAgain(configDirectory, log);
  const master = createMaster({ config, logger, readConfig });
  const service = new ServiceReporter(createServiceNotifier(logger));
  onSignal('SIGUSR1', () => log.reopen());
  // The end of a terminal ends what runs on it.
  if (stderr?.isTTY !== true) {
    onSignal('SIGHUP', () => service.reload(() => reload(configDirectory, master, log)));
  }
  tellWarnings(logger, warnings);
  const pidFile = openPidFile(config, account, logger);
  try {
    takeAccount(config, change, logger);
    await master.start();
    pidFile?.write();
    await service.ready(describePorts(await master.status()));
    const signal = await terminated;
    logger.info({ signal }, 'closing');
    await service.stopping();
  } finally {
    await master.close();
    pidFile?.close();
    log.close();
  }
}

function describePorts({ transports }: MasterStatus): string {
  const ports = transports.map(
    ({ transport, publishPort, requestPort }) => `${publishPort} and ${requestPort} (${transport})`,
  );
  return `Serving minions on ports ${ports.join(', ')}`;
}

function openPidFile(
  { pidfile }: MasterConfig,
  owner: Account | undefined,
  logger: Logger,
): PidFile | undefined {
  try {
    return new PidFile(pidfile, owner);
  } catch (error) {
    logger.warn({ file: pidfile, err: error }, 'pidfile could not be written');
    return undefined;
  }
}

/** Before the first byte from the network is read [DESIGN, root]. */
function takeAccount(config: MasterConfig, change: UserChange, logger: Logger): void {
  if (change.kind === 'become') {
    makeFolders(config, change.account);
    becomeAccount(change.account);
    checkFolders(config, change.account);
  } else if (change.kind === 'impossible') {
    logger.warn({ user: config.user }, 'only root can become the user of the configuration');
  }
  if (process.getuid?.() === 0) {
    logger.warn('the master runs as root; set user to an account of its own');
  }
}
