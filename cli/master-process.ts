/** A process that is a master: its log, its account, its pidfile, its signals. */
import type { Logger } from 'pino';
import { type LogLevel, loadTenants, type MasterConfig } from '../master/index.ts';
import { type Account, becomeAccount, planUserChange, type UserChange } from './accounts.ts';
import type { OutputStream } from './context.ts';
import { checkFolders, makeFolders } from './folders.ts';
import { keepHeapSmall } from './heap.ts';
import { openMasterLog } from './logger.ts';
import { PidFile } from './pid-file.ts';
import { reloadProcess } from './reload.ts';
import { ServedMasters } from './served-masters.ts';
import { createServiceNotifier, ServiceReporter } from './service-manager.ts';
import { onSignal, terminationSignal } from './signals.ts';

/** What a start may take to end after a signal. */
const startEndMs = 3000;

/**
 * Runs a master, or those of its tenants, until a signal ends it.
 * @param level - goes before `log_level`
 * @param stderr - the console; `undefined`: the log file alone
 * @throws ConfigError, CommandError ERR_USER, ERR_TENANT, and what a master's start throws
 */
export async function runMaster(
  configDirectory: string,
  level: LogLevel | undefined,
  stderr: OutputStream | undefined,
): Promise<void> {
  keepHeapSmall();
  const loaded = await loadTenants(configDirectory);
  const { config } = loaded;
  const change = planUserChange(config.user);
  const account = change.kind === 'become' ? change.account : undefined;
  const logOptions = { stderr, level, owner: account };
  const log = openMasterLog(config, logOptions);
  const { logger } = log;
  const masters = new ServedMasters(configDirectory, loaded, log, logOptions);
  const service = new ServiceReporter(createServiceNotifier(logger));
  onSignal('SIGUSR1', () => {
    log.reopen();
    masters.reopenLogs();
  });
  // The end of a terminal ends what runs on it.
  if (stderr?.isTTY !== true) {
    onSignal('SIGHUP', () =>
      service.reload(() => reloadProcess(configDirectory, loaded, masters, log)),
    );
  }
  const pidFile = openPidFile(config, account, logger);
  try {
    takeAccount(config, masters, change, logger);
    // Not before: until here a disk that does not answer would hold up who listens for the signal.
    const terminated = terminationSignal();
    const started = masters.start();
    const early = await Promise.race([started, terminated]);
    if (early === undefined) {
      pidFile?.write();
      await service.ready(await masters.describe());
    } else {
      endInTime(early, logger);
      started.catch((error: unknown) => logger.info({ err: error }, 'start was given up'));
    }
    const signal = await terminated;
    logger.info({ signal }, 'closing');
    await service.stopping();
  } finally {
    await masters.close();
    pidFile?.close();
    log.close();
  }
}

/**
 * A start may wait for something that never ends, such as a file system that does not answer: then
 * nothing can be closed, and the signal ends the process as if nobody had listened for it.
 */
function endInTime(signal: NodeJS.Signals, logger: Logger): void {
  setTimeout(() => {
    logger.error({ signal }, 'the start could not be given up in time');
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  }, startEndMs).unref();
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
function takeAccount(
  config: MasterConfig,
  masters: ServedMasters,
  change: UserChange,
  logger: Logger,
): void {
  if (change.kind === 'become') {
    masters.forEachConfig(makeFolders, change.account);
    becomeAccount(change.account);
    masters.forEachConfig(checkFolders, change.account);
  } else if (change.kind === 'impossible') {
    logger.warn({ user: config.user }, 'only root can become the user of the configuration');
  }
  if (process.getuid?.() === 0) {
    logger.warn('the master runs as root; set user to an account of its own');
  }
}
