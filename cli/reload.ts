import type { Logger } from 'pino';
import {
  ConfigError,
  type ConfigWarning,
  loadMasterConfig,
  type Master,
  type MasterConfig,
} from '../master/index.ts';
import type { MasterLog } from './logger.ts';

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
  log: MasterLog,
): Promise<void> {
  const { logger } = log;
  try {
    const config = await readAgain(configDirectory, log);
    const { applied, needRestart } = await master.reload(config);
    log.setLevels(config);
    logger.info({ applied }, 'configuration reloaded');
    if (needRestart.length > 0) logger.warn({ needRestart }, 'options wait for a restart');
  } catch (error) {
    logger.error(describe(error), 'configuration not reloaded; the one before stays in force');
  }
}

function describe(error: unknown): object {
  if (!(error instanceof ConfigError)) return { err: error };
  const { code, file, line, key: option, message: reason } = error;
  return { code, file, line, option, reason };
}
