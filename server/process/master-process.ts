/** Runs a master as a process, with its log, account, pid file and signals. */

import { closeSync, constants, ftruncateSync, readFileSync, rmSync, writeSync } from 'node:fs';
import path from 'node:path';
import type { Logger } from 'pino';
import type { LogLevel } from '#config';
import { type MasterConfig, resolveMasterConfig } from '#config';
import { logConfigWarnings } from '#master';
import { type Account, becomeAccount, planUserChange, type UserChange } from './account.ts';
import { limitHeapGrowth } from './heap-growth.ts';
import { loadServedConfig } from './load-served-config.ts';
import { type LogStream, openMasterLog } from './log.ts';
import { checkMasterDirectories, createMasterDirectories } from './master-directories.ts';
import { createOwnedDirectory, openOwnedFile } from './owned-files.ts';
import { reloadProcess, ServedMasters } from './served-masters.ts';
import { createServiceNotifier, ServiceReporter } from './service-manager.ts';
import { onSignal, terminationSignal } from './signals.ts';

/**
 * Pid file. It is opened before the process changes its user, and written when the master is
 * running. A second master that fails to start therefore does not overwrite the pid of the first.
 */
class PidFile {
  readonly #file: string;
  readonly #descriptor: number;

  /**
   * Opens the pid file.
   * @throws the system error if the file cannot be opened
   */
  constructor(file: string, owner: Account | undefined) {
    createOwnedDirectory(path.dirname(file), 0o755, owner);
    this.#file = file;
    this.#descriptor = openOwnedFile(file, constants.O_RDWR, 0o644, owner);
  }

  /** Writes the id of this process. */
  write(): void {
    ftruncateSync(this.#descriptor);
    writeSync(this.#descriptor, String(process.pid), 0);
  }

  /** Removes the pid file, unless it contains the id of another process. */
  close(): void {
    closeSync(this.#descriptor);
    try {
      const text = readFileSync(this.#file, 'utf8');
      if (text === '' || text === String(process.pid)) rmSync(this.#file);
    } catch {
      // The file does not exist, or root owns its directory. The next start overwrites the file.
    }
  }
}

/**
 * Maximum time that a start-up may take to stop after a termination signal, in milliseconds. After
 * this time, the process is killed.
 */
const abortedStartTimeoutMs = 3000;

/**
 * Runs the master of a configuration directory, or one master for each of its tenants, until an OS
 * signal ends the process.
 * @param level - log level, instead of the option `log_level`
 * @param stderr - console; `undefined` to write only to the log file
 * @throws ConfigError, ProcessError, StoreError ERR_STORE_FENCED, and the errors of a master's
 * start
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
  // On a terminal, do not handle SIGHUP: it means that the terminal was closed, and must end the
  // process.
  if (stderr?.isTTY !== true) {
    onSignal('SIGHUP', () =>
      service.reload(() => reloadProcess(configDirectory, loaded, masters, log)),
    );
  }
  const pidFile = openPidFile(config, account, logger);
  try {
    switchToAccount(config, masters, change, logger);
    // Install the signal handler only now. Earlier, the process may block on a disk that does not
    // respond. A signal could not end it then if a handler were installed.
    const terminated = terminationSignal();
    const started = masters.start();
    const early = await Promise.race([started, terminated]);
    if (early === undefined) {
      pidFile?.write();
      await service.ready(await masters.describe());
    } else {
      forceExitAfterTimeout(early, logger);
      started.catch((error: unknown) =>
        logger.info({ err: error }, 'the start was aborted by an OS signal'),
      );
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
 * Ends the process if its start-up is still running {@link abortedStartTimeoutMs} after an OS
 * signal, for example because a file system does not respond. To do so, removes the handlers of the
 * OS signal and sends the signal to the process again.
 */
function forceExitAfterTimeout(signal: NodeJS.Signals, logger: Logger): void {
  setTimeout(() => {
    logger.error(
      { signal },
      `the start-up was still running ${abortedStartTimeoutMs / 1000} s after ${signal}; killing the process`,
    );
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
    // Do not warn about the default pid file: only root can write to its directory, and neither
    // systemd nor containers need the file.
    if (pidfile === resolveMasterConfig({}).pidfile) {
      logger.info({ file: pidfile, err: error }, 'no pidfile');
    } else
      logger.warn(
        { file: pidfile, err: error },
        'cannot write the process id to the file in the option `pidfile`',
      );
    return undefined;
  }
}

/**
 * Switches the process to the account of the option `user`, before the process reads any data from
 * the network.
 */
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
    logger.warn(
      { user: config.user },
      'cannot change to the configured user, because the process is not root; the master runs as the current user',
    );
  }
  if (process.getuid?.() === 0) {
    logger.warn(
      'the master is running as root; set the option `user` to an account for the master',
    );
  }
}
