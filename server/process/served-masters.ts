/**
 * Masters of one process. Either all of them start, or none. Each is reloaded independently of the
 * others.
 */

import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import { ConfigError, type LoadedTenants, loadMasterConfig, type MasterConfig } from '#config';
import { logConfigWarnings, type MasterStatus } from '#master';
import { errorMessage } from '#runtime';
import { createMasterServer, type MasterServer } from '../index.ts';
import type { Account } from './account.ts';
import { ProcessError } from './errors.ts';
import { type MasterLog, type MasterLogOptions, openMasterLog } from './log.ts';

/**
 * Reads the configuration files again and logs their warnings.
 * @throws ConfigError
 */
async function rereadConfig(
  configDirectory: string,
  { logger }: Pick<MasterLog, 'logger'>,
): Promise<MasterConfig> {
  const { config, warnings } = await loadMasterConfig(configDirectory);
  logConfigWarnings(logger, warnings);
  return config;
}

/**
 * Reads the configuration of a master again, and applies the options that can change without a
 * restart. If the configuration has an error, nothing changes. Logs the result, and never throws.
 */
async function reloadMaster(server: MasterServer, log: MasterLog): Promise<void> {
  const { logger } = log;
  try {
    const { applied, needRestart, certificates } = await server.reload();
    log.setLevels(server.master.config);
    logger.info({ applied, certificates }, 'reloaded the configuration');
    if (needRestart.length > 0)
      logger.warn(
        { needRestart },
        'reloaded the configuration, but some changed options take effect after a restart only',
      );
  } catch (error) {
    logger.error(
      describeReloadError(error),
      'configuration not reloaded, because it has an error; the previous configuration stays active',
    );
  }
}

/**
 * Reloads the masters of a process, each from its own files. With tenants, also applies the log
 * levels in the configuration of the process. Never throws.
 */
export async function reloadProcess(
  configDirectory: string,
  started: LoadedTenants,
  masters: { reload(): Promise<void> },
  log: MasterLog,
): Promise<void> {
  await masters.reload();
  if (started.tenants.length === 0) return;
  try {
    const { config } = await loadMasterConfig(configDirectory);
    log.setLevels(config);
    if (!isDeepStrictEqual(config.tenants, started.config.tenants)) {
      log.logger.warn(
        { needRestart: ['tenants'] },
        'reloaded the configuration, but some changed options take effect after a restart only',
      );
    }
  } catch (error) {
    log.logger.error(
      describeReloadError(error),
      'configuration not reloaded, because it has an error; the previous configuration stays active',
    );
  }
}

function describeReloadError(error: unknown): object {
  if (!(error instanceof ConfigError)) return { err: error };
  const { code, file, line, key: option, message: reason } = error;
  return { code, file, line, option, reason };
}

/** A master that this process runs. */
interface ServedMaster {
  /** Name of the tenant, or `undefined` if the master is the only one. */
  readonly tenant: string | undefined;
  readonly config: MasterConfig;
  readonly log: MasterLog;
  readonly server: UnstartedServer;
}

type UnstartedServer = Awaited<ReturnType<typeof createMasterServer>>;

/** The master of a configuration directory, or the masters of its tenants. */
export class ServedMasters {
  readonly #masters: readonly ServedMaster[];
  /** Resolves when `start` ends, with whether all masters serve. */
  readonly #started = Promise.withResolvers<boolean>();
  #isClosing = false;

  private constructor(masters: readonly ServedMaster[]) {
    this.#masters = masters;
  }

  /**
   * Creates the masters.
   * @param log - log of the process. Each tenant's master has its own log instead; a master without
   * tenants uses the log of the process
   */
  static async create(
    directory: string,
    { config, warnings, tenants }: LoadedTenants,
    log: MasterLog,
    options: MasterLogOptions,
  ): Promise<ServedMasters> {
    logConfigWarnings(log.logger, warnings);
    if (tenants.length === 0) {
      return new ServedMasters([await createServedMaster(undefined, directory, config, log)]);
    }
    const masters: ServedMaster[] = [];
    for (const tenant of tenants) {
      const ownLog = openTenantLog(tenant.name, tenant.config, options);
      logConfigWarnings(ownLog.logger, tenant.warnings);
      masters.push(await createServedMaster(tenant.name, tenant.directory, tenant.config, ownLog));
    }
    return new ServedMasters(masters);
  }

  /** Calls `act` once for each master, with the master's configuration and the given account. */
  forEachConfig(act: (config: MasterConfig, account: Account) => void, account: Account): void {
    for (const { config } of this.#masters) act(config, account);
  }

  /**
   * Starts the masters one after the other. If one fails, the masters that have started are closed.
   * If `close` is called in the meantime, no further master is started.
   * @throws the error of the master that failed; for a tenant's master, ProcessError ERR_TENANT
   * instead
   */
  async start(): Promise<void> {
    try {
      await this.#startEach();
      this.#started.resolve(!this.#isClosing);
    } finally {
      this.#started.resolve(false);
    }
  }

  async #startEach(): Promise<void> {
    for (const { tenant, server, log } of this.#masters) {
      if (this.#isClosing) return;
      try {
        await server.start();
      } catch (cause) {
        await this.#closeMasters().catch((error: unknown) => {
          log.logger.error(
            { err: error },
            'a tenant failed to start, and the tenants that started earlier cannot be closed',
          );
        });
        throw tenant === undefined ? cause : toTenantError(tenant, cause, log.logger);
      }
    }
  }

  /**
   * Resolves with the reason when one of the masters has closed itself. A master does this if
   * another process has taken over the store of this master, or if a site could not restart.
   */
  replaced(): Promise<Error> {
    return new Promise((resolve) => {
      for (const { server } of this.#masters) {
        void server.closed.then((error) => {
          if (error !== undefined) resolve(error);
        });
      }
    });
  }

  /** Returns a description of the addresses at which minions can connect. */
  async describe(): Promise<string> {
    const ports = this.#masters.map(async ({ tenant, server }) => {
      const places = describePorts(await server.master.status());
      return tenant === undefined ? places : `${places} for ${tenant}`;
    });
    return `Serving minions on ports ${(await Promise.all(ports)).join('; ')}`;
  }

  /**
   * Reloads each master from its own files, independently of the others. A reload that is requested
   * during the start begins after it: the master answers on its local socket shortly before its
   * start ends, and has read its files much earlier.
   */
  async reload(): Promise<void> {
    if (!(await this.#started.promise)) return;
    for (const { server, log } of this.#masters) await reloadMaster(server, log);
  }

  reopenLogs(): void {
    for (const { tenant, log } of this.#masters) if (tenant !== undefined) log.reopen();
  }

  /**
   * Closes all masters.
   * @throws the first error, after all masters were closed or have failed to close
   */
  async close(): Promise<void> {
    this.#isClosing = true;
    this.#started.resolve(false);
    try {
      await this.#closeMasters();
    } finally {
      for (const { tenant, log } of this.#masters) if (tenant !== undefined) log.close();
    }
  }

  async #closeMasters(): Promise<void> {
    const outcomes = await Promise.allSettled(this.#masters.map(({ server }) => server.close()));
    const failed = outcomes.find(({ status }) => status === 'rejected');
    if (failed?.status === 'rejected') throw failed.reason;
  }
}

async function createServedMaster(
  tenant: string | undefined,
  directory: string,
  config: MasterConfig,
  log: MasterLog,
): Promise<ServedMaster> {
  const readConfig = (): Promise<MasterConfig> => rereadConfig(directory, log);
  const server = await createMasterServer({ config, logger: log.logger, readConfig });
  return { tenant, config, log, server };
}

/**
 * Opens the log of a tenant. Each line contains the name of the tenant, because tenants share the
 * console and may share a log file.
 */
function openTenantLog(tenant: string, config: MasterConfig, options: MasterLogOptions): MasterLog {
  const log = openMasterLog(config, options);
  return { ...log, logger: log.logger.child({ tenant }) };
}

function toTenantError(tenant: string, cause: unknown, logger: Logger): ProcessError {
  logger.error({ err: cause }, 'cannot start a tenant, so no tenant is started');
  const reason = errorMessage(cause);
  return new ProcessError('ERR_TENANT', `tenant ${tenant} did not start: ${reason}`, { cause });
}

function describePorts({ transports }: MasterStatus): string {
  return transports
    .map(
      ({ transport, publishPort, requestPort }) =>
        `${publishPort} and ${requestPort} (${transport})`,
    )
    .join(', ');
}
