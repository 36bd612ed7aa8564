/** One master with the bridge and the HTTP API, as one thing to start, reload and close. */

import type { SaltConfig } from '#config';
import type { MasterServer, ServeOptions, UnstartedMasterServer } from './master-with-services.ts';

/**
 * Starts what `saltbridge master` runs: a master with the bridge, and the HTTP API where `api` (or
 * `rest_cherrypy` of a file) has a port. Resolves when minions and HTTP clients are served. The
 * process itself (user, pidfile, log files, signals, tenants) is left to its program.
 * @param options - options of a master, or what `loadSaltConfig` gives
 * @throws ConfigError; what the start of a master throws; SaltApiError ERR_HTTP_LISTEN
 */
export async function serve(options: ServeOptions | SaltConfig): Promise<MasterServer> {
  const server = await createMasterServer('directory' in options ? { config: options } : options);
  await server.start();
  return server;
}

/** The server of {@link serve}, before anything is opened. */
export async function createMasterServer(options: ServeOptions): Promise<UnstartedMasterServer> {
  // A program that makes only a master does not load the bridge.
  const { MasterWithServices } = await import('./master-with-services.ts');
  return new MasterWithServices(options);
}
