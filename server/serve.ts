/** Starts, reloads and closes a master together with its bridge and its HTTP API. */

import type { MasterConfig, SaltConfig } from '#config';
import type { MasterServer, UnstartedMasterServer } from './master-with-services.ts';
import type { ServeOptions } from './serve-options.ts';

/**
 * Starts the services of `saltbridge master`: a master with the bridge, and the HTTP API if it is
 * configured. The option `api` (in a configuration file also `rest_cherrypy`) with a port enables
 * the HTTP API. Resolves when minions and HTTP clients are served. The calling program must manage
 * the process: user, pid file, log files, signals and tenants.
 * @param options - options of a master, or the result of `loadSaltConfig`
 * @throws ConfigError; the errors of a master's start; SaltApiError ERR_HTTP_LISTEN
 */
export async function serve(options: ServeOptions | SaltConfig): Promise<MasterServer> {
  const server = await createMasterServer('directory' in options ? { config: options } : options);
  await server.start();
  return server;
}

/** Creates the server of {@link serve} without starting it. */
export async function createMasterServer(options: ServeOptions): Promise<UnstartedMasterServer> {
  // Load the bridge on demand, so that programs that only create a master do not load it.
  const { MasterWithServices } = await import('./master-with-services.ts');
  const { config, site } = options;
  const isSite = config === undefined ? site !== undefined : siteIn(config) !== null;
  if (!isSite) return new MasterWithServices(options);
  const { siteOptionsOf } = await import('./site-config.ts');
  return new MasterWithServices((await siteOptionsOf(options)) ?? options);
}

function siteIn(config: SaltConfig | MasterConfig): MasterConfig['site'] {
  return 'config' in config ? config.config.site : config.site;
}
