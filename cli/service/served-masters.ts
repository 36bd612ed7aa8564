/** The masters of one process: all start or none, and each is reloaded and closed by itself. */

import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import { type Bridge, createBridge } from '../../heat-bridge/index.ts';
import {
  ConfigError,
  type ConfigWarning,
  createMaster,
  type ExtensionHost,
  type LoadedTenants,
  loadMasterConfig,
  type Master,
  type MasterConfig,
  type MasterExtension,
  type MasterStatus,
  type OpenExtension,
} from '../../master/index.ts';
import type { SaltApi } from '../../salt-api/index.ts';
import { CommandError } from '../errors.ts';
import type { Account } from './account.ts';
import { type MasterLog, type MasterLogOptions, openMasterLog } from './log.ts';

/** What in a configuration has no effect. */
function logConfigWarnings(logger: Logger, warnings: readonly ConfigWarning[]): void {
  for (const { key: option, message: reason, ...place } of warnings) {
    logger.warn({ option, reason, ...place }, 'configuration');
  }
}

/** What the files say now; warnings are logged. @throws ConfigError */
async function rereadConfig(
  configDirectory: string,
  { logger }: Pick<MasterLog, 'logger'>,
): Promise<MasterConfig> {
  const { config, warnings } = await loadMasterConfig(configDirectory);
  logConfigWarnings(logger, warnings);
  return config;
}

/**
 * Reads the configuration again, and lets the master take over what it can. With a mistake in it
 * nothing changes. What happened is logged; it never throws.
 */
async function reloadMaster(
  configDirectory: string,
  master: Master,
  api: HttpApiExtension,
  log: MasterLog,
): Promise<void> {
  const { logger } = log;
  const ofApi = await renewCertificate(api, logger);
  try {
    const config = await rereadConfig(configDirectory, log);
    const { applied, needRestart, certificates } = await master.reload(config);
    log.setLevels(config);
    const renewed = [...ofApi, ...certificates];
    logger.info({ applied, certificates: renewed }, 'configuration reloaded');
    if (needRestart.length > 0) logger.warn({ needRestart }, 'options wait for a restart');
  } catch (error) {
    logger.error(
      describeReloadError(error),
      'configuration not reloaded; the one before stays in force',
    );
  }
}

async function renewCertificate(api: HttpApiExtension, logger: Logger): Promise<readonly string[]> {
  try {
    return await api.renewCertificate();
  } catch (error) {
    logger.error({ err: error }, 'certificate not renewed; the one before stays in force');
    return [];
  }
}

/**
 * Reloads the masters of a process: each its own files, and with tenants what the process itself
 * can take over, which is how much it logs. It never throws.
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
      log.logger.warn({ needRestart: ['tenants'] }, 'options wait for a restart');
    }
  } catch (error) {
    log.logger.error(
      describeReloadError(error),
      'configuration not reloaded; the one before stays in force',
    );
  }
}

function describeReloadError(error: unknown): object {
  if (!(error instanceof ConfigError)) return { err: error };
  const { code, file, line, key: option, message: reason } = error;
  return { code, file, line, option, reason };
}

/**
 * Salt's HTTP API of a served master, if the configuration asks for one. It is an extension, so that
 * the master does not start without it.
 */
class HttpApiExtension implements MasterExtension {
  readonly name = 'salt-api';
  readonly #bridge: Bridge;
  readonly #logger: Logger;
  #api: SaltApi | undefined;

  /** @param bridge - whose routes are served besides; an extension of the same master, before it */
  constructor(bridge: Bridge, logger: Logger) {
    this.#bridge = bridge;
    this.#logger = logger;
  }

  async open(host: ExtensionHost): Promise<OpenExtension> {
    return { start: () => this.#start(host), close: () => this.close() };
  }

  /** Ends streams and lets requests finish, while the master can still answer them. */
  async close(): Promise<void> {
    await this.#api?.close();
  }

  /** Takes a renewed certificate over at once. @returns the certificates that are in force anew */
  async renewCertificate(): Promise<readonly string[]> {
    return (await this.#api?.renewCertificate()) ?? [];
  }

  async #start({ config, master }: ExtensionHost): Promise<void> {
    if ((config.api ?? config.restCherrypy) === null) return;
    const { createSaltApi, saltApiOptions } = await import('../../salt-api/index.ts');
    const options = saltApiOptions(config);
    if (options === undefined) return;
    const logger = this.#logger.child({ component: 'salt-api' });
    this.#api = await createSaltApi(master(), { ...options, logger, plugins: [this.#bridge.http] });
    const { address, port } = await this.#api.listen();
    logger.info({ address, port }, 'http api started');
  }
}

/** One of them. */
interface ServedMaster {
  /** `undefined` where it is the only one. */
  readonly tenant: string | undefined;
  readonly directory: string;
  readonly config: MasterConfig;
  readonly log: MasterLog;
  readonly master: Master;
  readonly api: HttpApiExtension;
}

/** The master of a configuration directory, or those of its tenants. */
export class ServedMasters {
  readonly #masters: readonly ServedMaster[];
  #isClosing = false;

  /** @param log - the process's, and that of a master without tenants */
  constructor(
    directory: string,
    { config, warnings, tenants }: LoadedTenants,
    log: MasterLog,
    options: MasterLogOptions,
  ) {
    if (tenants.length === 0) {
      this.#masters = [createServedMaster(undefined, directory, config, log)];
    } else {
      this.#masters = tenants.map((it) =>
        createServedMaster(
          it.name,
          it.directory,
          it.config,
          openTenantLog(it.name, it.config, options),
        ),
      );
    }
    logConfigWarnings(log.logger, warnings);
    for (const [index, { warnings: own }] of tenants.entries()) {
      const tenant = this.#masters[index];
      if (tenant !== undefined) logConfigWarnings(tenant.log.logger, own);
    }
  }

  /** Does something for the files of each. */
  forEachConfig(act: (config: MasterConfig, account: Account) => void, account: Account): void {
    for (const { config } of this.#masters) act(config, account);
  }

  /**
   * Starts them one after the other; where one fails, those before it are closed. Those that have
   * not begun when it is closed do not start.
   * @throws what the start of a master throws; for tenants CommandError ERR_TENANT
   */
  async start(): Promise<void> {
    for (const { tenant, master, log } of this.#masters) {
      if (this.#isClosing) return;
      try {
        await master.start();
      } catch (cause) {
        await this.#closeMasters().catch((error: unknown) => {
          log.logger.error({ err: error }, 'tenants were not closed');
        });
        throw tenant === undefined ? cause : toTenantError(tenant, cause, log.logger);
      }
    }
  }

  /** Resolves with the reason when one of them closes itself: another process has its store. */
  replaced(): Promise<Error> {
    return new Promise((resolve) => {
      for (const { master } of this.#masters) {
        void master.closed.then((error) => {
          if (error !== undefined) resolve(error);
        });
      }
    });
  }

  /** Where minions are served, for people. */
  async describe(): Promise<string> {
    const ports = this.#masters.map(async ({ tenant, master }) => {
      const places = describePorts(await master.status());
      return tenant === undefined ? places : `${places} for ${tenant}`;
    });
    return `Serving minions on ports ${(await Promise.all(ports)).join('; ')}`;
  }

  /** Each takes over its own files, whatever becomes of the others. */
  async reload(): Promise<void> {
    for (const { directory, master, api, log } of this.#masters) {
      await reloadMaster(directory, master, api, log);
    }
  }

  reopenLogs(): void {
    for (const { tenant, log } of this.#masters) if (tenant !== undefined) log.reopen();
  }

  /** Closes all of them, also when one fails; then throws the first failure. */
  async close(): Promise<void> {
    this.#isClosing = true;
    try {
      await this.#closeMasters();
    } finally {
      for (const { tenant, log } of this.#masters) if (tenant !== undefined) log.close();
    }
  }

  async #closeMasters(): Promise<void> {
    await Promise.allSettled(this.#masters.map(({ api }) => api.close()));
    const outcomes = await Promise.allSettled(this.#masters.map(({ master }) => master.close()));
    const failed = outcomes.find(({ status }) => status === 'rejected');
    if (failed?.status === 'rejected') throw failed.reason;
  }
}

function createServedMaster(
  tenant: string | undefined,
  directory: string,
  config: MasterConfig,
  log: MasterLog,
): ServedMaster {
  const readConfig = (): Promise<MasterConfig> => rereadConfig(directory, log);
  const bridge = createBridge();
  const api = new HttpApiExtension(bridge, log.logger);
  const extensions = [bridge, api];
  const master = createMaster({ config, logger: log.logger, readConfig, extensions });
  return { tenant, directory, config, log, master, api };
}

/** Every line says whose it is: tenants may have one log file, and have one console. */
function openTenantLog(tenant: string, config: MasterConfig, options: MasterLogOptions): MasterLog {
  const log = openMasterLog(config, options);
  return { ...log, logger: log.logger.child({ tenant }) };
}

function toTenantError(tenant: string, cause: unknown, logger: Logger): CommandError {
  logger.error({ err: cause }, 'tenant could not start');
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new CommandError('ERR_TENANT', `tenant ${tenant} did not start: ${reason}`, { cause });
}

function describePorts({ transports }: MasterStatus): string {
  return transports
    .map(
      ({ transport, publishPort, requestPort }) =>
        `${publishPort} and ${requestPort} (${transport})`,
    )
    .join(', ');
}
