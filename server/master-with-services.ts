import type { AddressInfo } from 'node:net';
import type { MasterConfig, PlainOptions, SaltConfig } from '#config';
import { type Bridge, createBridge } from '#guests';
import {
  type ExtensionHost,
  type Master,
  type MasterExtension,
  masterServices,
  type OpenExtension,
  type ReloadReport,
} from '#master';
import type { SaltApi } from '#salt-api';
import { createLocalClient } from '#salt-api/localclient/index.ts';
import { type CreateMasterOptions, createMaster } from './create-master.ts';
import { edgeExtensions } from './edge-extensions.ts';

/** Options of `serve`: options of a master and of its bridge. */
export interface ServeOptions extends CreateMasterOptions {
  /**
   * Name of the service that is the caller of bridge requests without a caller. Default: `bridge`.
   */
  readonly service?: string;
}

/** A master with the bridge and the HTTP API. */
export interface MasterServer {
  readonly master: Master;
  readonly bridge: Bridge;
  /** Address of the HTTP API, or `undefined` if the configuration does not enable it. */
  readonly httpAddress: AddressInfo | undefined;
  /**
   * Applies changed options like `master.reload`, and loads a renewed certificate of the HTTP API.
   * If the certificate cannot be read, the failure is logged and the previous certificate remains
   * in use.
   * @throws the errors of `master.reload`. The previous options then stay active
   */
  reload(next?: SaltConfig | MasterConfig | PlainOptions): Promise<ReloadReport>;
  /** Waits for requests in progress, then closes everything. Can be called more than once. */
  close(): Promise<void>;
}

/** A server that has not been started. */
export interface UnstartedMasterServer extends MasterServer {
  /**
   * Starts the server.
   * @throws the errors of the master's start; SaltApiError ERR_HTTP_LISTEN
   */
  start(): Promise<void>;
}

/**
 * HTTP API of a master, if the configuration enables it. If the HTTP API cannot start, the master
 * does not start either.
 */
class HttpApiExtension implements MasterExtension {
  readonly name = 'salt-api';
  #host: ExtensionHost | undefined;
  #api: SaltApi | undefined;
  address: AddressInfo | undefined;

  async open(host: ExtensionHost): Promise<OpenExtension> {
    this.#host = host;
    return { start: () => this.#start(host), close: () => this.close() };
  }

  /**
   * Ends event streams and waits for requests in progress, while the master can still answer them.
   */
  async close(): Promise<void> {
    await this.#api?.close();
  }

  /**
   * Checks immediately whether the certificate files have changed, and loads them if so.
   * @returns names of the replaced certificates
   */
  async renewCertificate(): Promise<readonly string[]> {
    try {
      return (await this.#api?.renewCertificate()) ?? [];
    } catch (error) {
      this.#host?.logger.error(
        { err: error },
        'could not load the renewed TLS certificate; the previous one remains in use',
      );
      return [];
    }
  }

  async #start(extensionHost: ExtensionHost): Promise<void> {
    const { config, reloadable, master, calls, logger } = extensionHost;
    if ((config.api ?? config.restCherrypy) === null) return;
    const { createSaltApi, saltApiOptions } = await import('#salt-api');
    const options = saltApiOptions({ ...config, ...reloadable() });
    if (options === undefined) return;
    const plugins = extensionHost.use(masterServices.contributions).routes;
    const served = { ...master(), calls };
    this.#api = await createSaltApi(served, { ...options, logger, plugins, extensionHost });
    this.address = await this.#api.listen();
    const { address, port } = this.address;
    logger.info({ address, port }, 'the HTTP API is listening');
  }
}

export class MasterWithServices implements UnstartedMasterServer {
  readonly master: Master;
  readonly bridge: Bridge;
  readonly #api: HttpApiExtension = new HttpApiExtension();

  constructor({ service, extensions = [], ...options }: ServeOptions) {
    this.bridge = createBridge(service === undefined ? {} : { service });
    const own = [this.bridge, createLocalClient(), ...edgeExtensions(), this.#api];
    this.master = createMaster({ ...options, extensions: [...extensions, ...own] });
  }

  get httpAddress(): AddressInfo | undefined {
    return this.#api.address;
  }

  start(): Promise<void> {
    return this.master.start();
  }

  async reload(next?: SaltConfig | MasterConfig | PlainOptions): Promise<ReloadReport> {
    const renewed = await this.#api.renewCertificate();
    const report = await this.master.reload(next);
    return { ...report, certificates: [...renewed, ...report.certificates] };
  }

  async close(): Promise<void> {
    try {
      await this.#api.close();
    } finally {
      await this.master.close();
    }
  }
}
