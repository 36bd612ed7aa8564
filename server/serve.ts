/** One master with the bridge and the HTTP API, as one thing to start, reload and close. */

import type { AddressInfo } from 'node:net';
import type { Bridge } from '../heat-bridge/index.ts';
import type {
  CreateMasterOptions,
  Master,
  MasterConfig,
  PlainOptions,
  ReloadReport,
  SaltConfig,
} from '../master/index.ts';

/** Options of {@link serve}: those of a master, and of its bridge. */
export interface ServeOptions extends CreateMasterOptions {
  /** The service that calls the bridge where a request names no caller. Default `bridge`. */
  readonly service?: string;
}

/** A master with the bridge and the HTTP API. */
export interface MasterServer {
  readonly master: Master;
  readonly bridge: Bridge;
  /** Where the HTTP API listens; `undefined` where the options ask for none. */
  readonly httpAddress: AddressInfo | undefined;
  /**
   * Takes over other options, as `master.reload` does, and a renewed certificate of the HTTP API. A
   * certificate that cannot be read is logged, and the former one stays in use.
   * @throws what `master.reload` throws; the options before stay in force
   */
  reload(next?: SaltConfig | MasterConfig | PlainOptions): Promise<ReloadReport>;
  /** Drains in-flight requests, then closes everything. May be called twice. */
  close(): Promise<void>;
}

/** A server that has not been started. */
export interface UnstartedMasterServer extends MasterServer {
  /** @throws what the start of a master throws; SaltApiError ERR_HTTP_LISTEN */
  start(): Promise<void>;
}

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
  // Loaded here, so that a program that makes only a master does not load the bridge.
  const { MasterWithServices } = await import('./master-with-services.ts');
  return new MasterWithServices(options);
}
