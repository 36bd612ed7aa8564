/** The masters of one process: all start or none, and each is reloaded and closed by itself. */
import type { Logger } from 'pino';
import { createBridge } from '../heat-bridge/index.ts';
import {
  createMaster,
  type LoadedTenants,
  type Master,
  type MasterConfig,
  type MasterStatus,
} from '../master/index.ts';
import type { Account } from './accounts.ts';
import { CommandError } from './errors.ts';
import { type MasterLog, type MasterLogOptions, openMasterLog } from './logger.ts';
import { readAgain, reload, tellWarnings } from './reload.ts';
import { ServedApi } from './served-api.ts';

/** One of them. */
interface ServedMaster {
  /** `undefined` where it is the only one. */
  readonly tenant: string | undefined;
  readonly directory: string;
  readonly config: MasterConfig;
  readonly log: MasterLog;
  readonly master: Master;
  readonly api: ServedApi;
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
      this.#masters = [toServe(undefined, directory, config, log)];
    } else {
      this.#masters = tenants.map((it) =>
        toServe(it.name, it.directory, it.config, openTenantLog(it.name, it.config, options)),
      );
    }
    tellWarnings(log.logger, warnings);
    for (const [index, { warnings: own }] of tenants.entries()) {
      const tenant = this.#masters[index];
      if (tenant !== undefined) tellWarnings(tenant.log.logger, own);
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
        throw tenant === undefined ? cause : notStarted(tenant, cause, log.logger);
      }
    }
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
    for (const { directory, master, log } of this.#masters) await reload(directory, master, log);
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

function toServe(
  tenant: string | undefined,
  directory: string,
  config: MasterConfig,
  log: MasterLog,
): ServedMaster {
  const readConfig = (): Promise<MasterConfig> => readAgain(directory, log);
  const bridge = createBridge();
  const api = new ServedApi(bridge, log.logger);
  const extensions = [bridge, api];
  const master = createMaster({ config, logger: log.logger, readConfig, extensions });
  return { tenant, directory, config, log, master, api };
}

/** Every line says whose it is: tenants may have one log file, and have one console. */
function openTenantLog(tenant: string, config: MasterConfig, options: MasterLogOptions): MasterLog {
  const log = openMasterLog(config, options);
  return { ...log, logger: log.logger.child({ tenant }) };
}

function notStarted(tenant: string, cause: unknown, logger: Logger): CommandError {
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
