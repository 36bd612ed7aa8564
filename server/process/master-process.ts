/** A master process: its log, account, pid file and signals. */

import {
  closeSync,
  constants,
  fchownSync,
  ftruncateSync,
  openSync,
  readFileSync,
  rmSync,
  writeSync,
} from 'node:fs';
import path from 'node:path';
import type { Logger } from 'pino';
import type { LogLevel } from '#config';
import { type MasterConfig, resolveMasterConfig } from '#config';
import { logConfigWarnings } from '#master';
import {
  type Account,
  becomeAccount,
  checkMasterDirectories,
  createMasterDirectories,
  createOwnedDirectory,
  planUserChange,
  type UserChange,
} from './account.ts';
import { limitHeapGrowth } from './heap-growth.ts';
import { loadServedConfig } from './load-served-config.ts';
import { type LogStream, openMasterLog } from './log.ts';
import { reloadProcess, ServedMasters } from './served-masters.ts';
import { createServiceNotifier, ServiceReporter } from './service-manager.ts';
import { onSignal, terminationSignal } from './signals.ts';

/**
 * A pid file that is opened before the process changes its user, and written once the master is
 * running. A master that cannot start beside another one leaves the other's pid unchanged.
 */
class PidFile {
  readonly #file: string;
  readonly #descriptor: number;

  /**
   * Opens the file.
   * @throws the system's error if the file cannot be opened
   */
  constructor(file: string, owner: Account | undefined) {
    createOwnedDirectory(path.dirname(file), 0o755, owner);
    this.#file = file;
    this.#descriptor = openSync(file, constants.O_RDWR | constants.O_CREAT, 0o644);
    if (owner !== undefined) fchownSync(this.#descriptor, owner.uid, owner.gid);
  }

  /** Writes the id of this process. */
  write(): void {
    ftruncateSync(this.#descriptor);
    writeSync(this.#descriptor, String(process.pid), 0);
  }

  /** Removes the file, unless it belongs to another process. */
  close(): void {
    closeSync(this.#descriptor);
    try {
      const text = readFileSync(this.#file, 'utf8');
      if (text === '' || text === String(process.pid)) rmSync(this.#file);
    } catch {
      // The file is gone, or in a directory of root's. The next start overwrites it.
    }
  }
}

/** Time after which a start that a signal aborted is ended, in milliseconds. */
const abortedStartTimeoutMs = 3000;

/**
 * Runs a master, or those of its tenants, until a signal ends it.
 * @param level - overrides `log_level`
 * @param stderr - the console; `undefined`: only the log file
 * @throws ConfigError, ProcessError, StoreError ERR_STORE_FENCED, and the errors of a master's
 *   start
 */
export async function runMaster(
  configDirectory: string,
  level: LogLevel | undefined,
  stderr: LogStream | undefined,
): Promise<void> {
  limitHeapGrowth();
  const { loaded, directoryWarnings } = await loadServedConfig(configDirectory);
  const { config } = loaded;
  const change = planUserChange(config.user);
  const account = change.kind === 'become' ? change.account : undefined;
  const logOptions = { stderr, level, owner: account };
  const log = openMasterLog(config, logOptions);
  const { logger } = log;
  logConfigWarnings(logger, directoryWarnings);
  const masters = await ServedMasters.create(configDirectory, loaded, log, logOptions);
  const service = new ServiceReporter(createServiceNotifier(logger));
  onSignal('SIGUSR1', () => {
    log.reopen();
    masters.reopenLogs();
  });
  // A closed terminal must end the programs that run on it.
  if (stderr?.isTTY !== true) {
    onSignal('SIGHUP', () =>
      service.reload(() => reloadProcess(configDirectory, loaded, masters, log)),
    );
  }
  const pidFile = openPidFile(config, account, logger);
  try {
    switchToAccount(config, masters, change, logger);
    // Registered only now: until here, a disk that does not respond could block a process that
    // handles the signal.
    const terminated = terminationSignal();
    const started = masters.start();
    const early = await Promise.race([started, terminated]);
    if (early === undefined) {
      pidFile?.write();
      await service.ready(await masters.describe());
    } else {
      forceExitAfterTimeout(early, logger);
      started.catch((error: unknown) => logger.info({ err: error }, 'start was aborted'));
    }
    const signal = await Promise.race([terminated, masters.replaced()]);
    if (signal instanceof Error) throw signal;
    logger.info({ signal }, 'closing');
    await service.stopping();
  } finally {
    await masters.close();
    pidFile?.close();
    log.close();
  }
}

/**
 * Ends the process after a time limit. A start may wait for something that never ends, such as a
 * file system that does not respond. Then nothing can be closed, and the signal ends the process as
 * it does without a handler.
 */
function forceExitAfterTimeout(signal: NodeJS.Signals, logger: Logger): void {
  setTimeout(() => {
    logger.error({ signal }, 'the start could not be aborted in time');
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  }, abortedStartTimeoutMs).unref();
}

function openPidFile(
  { pidfile }: MasterConfig,
  owner: Account | undefined,
  logger: Logger,
): PidFile | undefined {
  try {
    return new PidFile(pidfile, owner);
  } catch (error) {
    // Under a service manager or in a container the default file is not needed, and /run belongs to
    // root.
    if (pidfile === resolveMasterConfig({}).pidfile) {
      logger.info({ file: pidfile, err: error }, 'no pidfile');
    } else logger.warn({ file: pidfile, err: error }, 'pidfile could not be written');
    return undefined;
  }
}

/** Changes to the account. Runs before the first byte from the network is read. */
function switchToAccount(
  config: MasterConfig,
  masters: ServedMasters,
  change: UserChange,
  logger: Logger,
): void {
  if (change.kind === 'become') {
    masters.forEachConfig(createMasterDirectories, change.account);
    becomeAccount(change.account);
    masters.forEachConfig(checkMasterDirectories, change.account);
  } else if (change.kind === 'impossible') {
    logger.warn({ user: config.user }, 'only root can change to the user of the configuration');
  }
  if (process.getuid?.() === 0) {
    logger.warn('the master is running as root; set user to its own account');
  }
}
