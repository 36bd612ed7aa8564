/** A master with the bridge and the HTTP API, started, reloaded and closed as one. */

import type { SaltConfig } from '#config';
import type { MasterServer, ServeOptions, UnstartedMasterServer } from './master-with-services.ts';

/**
 * Starts the services of `saltbridge master`: a master with the bridge, and the HTTP API if `api`
 * (or `rest_cherrypy` of a file) has a port. Resolves when minions and HTTP clients are served. The
 * calling program manages the process itself (user, pid file, log files, signals, tenants).
 * @param options - options of a master, or the result of `loadSaltConfig`
 * @throws ConfigError; the errors of a master's start; SaltApiError ERR_HTTP_LISTEN
 */
export async function serve(options: ServeOptions | SaltConfig): Promise<MasterServer> {
  const server = await createMasterServer('directory' in options ? { config: options } : options);
  await server.start();
  return server;
}

/** Returns the server of {@link serve} before it opens anything. */
export async function createMasterServer(options: ServeOptions): Promise<UnstartedMasterServer> {
  // Loaded on demand: a program that only creates a master does not load the bridge.
  const { MasterWithServices } = await import('./master-with-services.ts');
  return new MasterWithServices(options);
}
