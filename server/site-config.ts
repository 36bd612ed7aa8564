/**
 * Configuration of a site. It consists of the options that the program gives, and of a bundle:
 * options that the central master of the site has published.
 */

import { realpath } from 'node:fs/promises';
import {
  ConfigError,
  loadMasterConfig,
  type MasterConfig,
  resolvePlainOptions,
  type SaltConfig,
} from '#config';
import { withNamedFiles } from './check-config.ts';
import type { ServeOptions } from './serve-options.ts';

/** Options of a site, with its complete configuration. */
export interface SiteServeOptions extends ServeOptions {
  readonly config: MasterConfig;
  readonly readConfig: () => Promise<MasterConfig>;
  /** Reads the site's own options, without the options in the central master's bundle. */
  readonly readOwn: () => Promise<MasterConfig>;
  /**
   * Returns the path of the central master's bundle that the site uses, or `undefined` if there is
   * none.
   */
  readonly bundleInUse: () => Promise<string | undefined>;
}

/**
 * Adds the options of the central master's bundle to the options of a site.
 * @returns `undefined` if the master is not a site
 */
export async function siteOptionsOf(options: ServeOptions): Promise<SiteServeOptions | undefined> {
  const base = baseConfig(options);
  if (base === undefined || base.site === null) return undefined;
  const { currentBundle, withBundle } = await import('#edge');
  const read = rereadOf(options, base);
  const complete = async (config: MasterConfig): Promise<MasterConfig> => {
    const { config: whole, problems } = await withBundle(config);
    const mistake = ConfigError.of(problems);
    if (mistake !== undefined) throw mistake;
    return whole;
  };
  return {
    ...partsOf(options),
    config: await complete(base),
    readConfig: async () => complete(await read()),
    readOwn: read,
    bundleInUse: () => realpath(currentBundle(base.stateDir)).catch(() => undefined),
  };
}

/**
 * Checks the options of a site together with a bundle of its central master.
 * @param base - options of the site itself
 * @param bundle - path of the bundle
 * @returns problems that would prevent a start
 */
export async function checkSiteBundle(
  base: MasterConfig,
  bundle: string,
): Promise<readonly string[]> {
  const { withBundle } = await import('#edge');
  const { config, problems } = await withBundle(base, bundle);
  const checked = { config, problems, settings: new Map(), warnings: [], files: [] };
  return (await withNamedFiles(checked)).problems.map(({ message }) => message);
}

function partsOf(options: ServeOptions): ServeOptions {
  const { service, extensions, without, fileserver, pillar, extPillar, tops } = options;
  const { clusterLog, logger, transports, store, now } = options;
  const parts = { service, extensions, without, fileserver, pillar, extPillar, tops };
  const all = { ...parts, clusterLog, logger, transports, store, now };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}

function baseConfig(options: ServeOptions): MasterConfig | undefined {
  const { config, site } = options;
  if (config !== undefined) return 'config' in config ? config.config : config;
  return site === undefined ? undefined : resolvePlainOptions(plainOf(options));
}

function plainOf({
  service: _,
  extensions: _extensions,
  without: _without,
  fileserver: _fileserver,
  pillar: _pillar,
  extPillar: _extPillar,
  tops: _tops,
  clusterLog: _clusterLog,
  logger: _logger,
  transports: _transports,
  store: _store,
  now: _now,
  config: _config,
  readConfig: _readConfig,
  ...plain
}: ServeOptions): Parameters<typeof resolvePlainOptions>[0] {
  return plain;
}

function rereadOf(
  { config, readConfig }: ServeOptions,
  base: MasterConfig,
): () => Promise<MasterConfig> {
  if (readConfig !== undefined) return readConfig;
  if (config === undefined || !('config' in config)) return async () => base;
  const { directory }: SaltConfig = config;
  return async () => (await loadMasterConfig(directory)).config;
}
