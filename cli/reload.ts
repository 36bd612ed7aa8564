import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import {
  ConfigError,
  type ConfigWarning,
  type LoadedTenants,
  loadMasterConfig,
  type Master,
  type MasterConfig,
} from '../master/index.ts';
import type { MasterLog } from './logger.ts';
import type { ServedApi } from './served-api.ts';

/** What in a configuration has no effect. */
export function tellWarnings(logger: Logger, warnings: readonly ConfigWarning[]): void {
  for (const { key: option, message: reason, ...place } of warnings) {
    logger.warn({ option, reason, ...place }, 'configuration');
  }
}

/** What the files say now; warnings are logged. @throws ConfigError */
export async function readAgain(
  configDirectory: string,
  { logger }: Pick<MasterLog, 'logger'>,
): Promise<MasterConfig> {
  const { config, warnings } = await loadMasterConfig(configDirectory);
  tellWarnings(logger, warnings);
  return config;
}

/**
 * Reads the configuration again, and lets the master take over what it can. With a mistake in it
 * nothing changes. What happened is logged; it never throws.
 */
export async function reload(
  configDirectory: string,
  master: Master,
  api: ServedApi,
  log: MasterLog,
): Promise<void> {
  const { logger } = log;
  const ofApi = await renewCertificate(api, logger);
  try {
    const config = await readAgain(configDirectory, log);
    const { applied, needRestart, certificates } = await master.reload(config);
    log.setLevels(config);
    const renewed = [...ofApi, ...certificates];
    logger.info({ applied, certificates: renewed }, 'configuration reloaded');
    if (needRestart.length > 0) logger.warn({ needRestart }, 'options wait for a restart');
  } catch (error) {
    logger.error(describe(error), 'configuration not reloaded; the one before stays in force');
  }
}

async function renewCertificate(api: ServedApi, logger: Logger): Promise<readonly string[]> {
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
    log.logger.error(describe(error), 'configuration not reloaded; the one before stays in force');
  }
}

function describe(error: unknown): object {
  if (!(error instanceof ConfigError)) return { err: error };
  const { code, file, line, key: option, message: reason } = error;
  return { code, file, line, option, reason };
}
