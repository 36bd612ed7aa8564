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
import { createMaster } from './create-master.ts';
import { edgeExtensions } from './edge-extensions.ts';
import type { ServeOptions } from './serve-options.ts';
import type { SiteServeOptions } from './site-config.ts';

/** A master with the bridge and the HTTP API. */
export interface MasterServer {
  /**
   * The running master. If this server is a site, its central master can publish options that
   * require a restart. After such a restart, this property contains a new `Master`.
   */
  readonly master: Master;
  readonly bridge: Bridge;
  /** Address of the HTTP API, or `undefined` if the configuration does not enable it. */
  readonly httpAddress: AddressInfo | undefined;
  /**
   * Applies changed options like `master.reload`, and loads a renewed certificate of the HTTP API.
   * If the certificate cannot be read, the failure is logged and the previous certificate remains
   * in use. If the options cannot be applied, the previous options stay active.
   * @throws the errors of `master.reload`
   */
  reload(next?: SaltConfig | MasterConfig | PlainOptions): Promise<ReloadReport>;
  /** Waits for requests in progress, then closes everything. Can be called more than once. */
  close(): Promise<void>;
  /**
   * Resolves when the server has closed. The value is an error if the server closed itself: another
   * process has taken over the store, or a site could not restart.
   */
  readonly closed: Promise<Error | undefined>;
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
        'could not load the renewed TLS certificate; the previous certificate remains in use',
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

/**
 * Functions that only a site needs. `readOwn` reads the options of the site itself. `bundleInUse`
 * finds the options that its central master has published.
 */
type SiteFunctions = Partial<Pick<SiteServeOptions, 'bundleInUse' | 'readOwn'>>;

export class MasterWithServices implements UnstartedMasterServer {
  readonly bridge: Bridge;
  readonly closed: Promise<Error | undefined>;
  readonly #api: HttpApiExtension = new HttpApiExtension();
  readonly #options: Omit<ServeOptions, 'service'>;
  /**
   * Reads the options of the site itself, without the options that its central master has
   * published. Absent if the master is not a site.
   */
  readonly #readOwn: SiteServeOptions['readOwn'] | undefined;
  readonly #bundleInUse: SiteServeOptions['bundleInUse'] | undefined;
  #tellClosed: (error: Error | undefined) => void = () => {};
  #master: Master;
  #isClosing = false;
  #restarting: Promise<void> | undefined;

  constructor({ service, readOwn, bundleInUse, ...options }: ServeOptions & SiteFunctions) {
    this.bridge = createBridge(service === undefined ? {} : { service });
    this.#options = options;
    this.#readOwn = readOwn;
    this.#bundleInUse = bundleInUse;
    this.closed = new Promise((resolve) => {
      this.#tellClosed = resolve;
    });
    this.#master = this.#create(options);
  }

  get master(): Master {
    return this.#master;
  }

  get httpAddress(): AddressInfo | undefined {
    return this.#api.address;
  }

  async start(): Promise<void> {
    const bundle = await this.#bundleInUse?.();
    await this.master.start();
    // While this process waited for the store, another one may have replaced the bundle.
    if ((await this.#bundleInUse?.()) !== bundle) await this.#restart();
  }

  async reload(next?: SaltConfig | MasterConfig | PlainOptions): Promise<ReloadReport> {
    const renewed = await this.#api.renewCertificate();
    const report = await this.master.reload(next);
    return { ...report, certificates: [...renewed, ...report.certificates] };
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    while (this.#restarting !== undefined) {
      await this.#restarting.catch(() => {
        // The failed restart has closed the master and resolved `closed`.
      });
    }
    await this.#closeMaster();
  }

  /**
   * Creates a master with the bridge and the HTTP API. When the master closes,
   * {@link MasterServer.closed} resolves, unless the server restarts the master.
   */
  #create(options: Omit<ServeOptions, 'service'>): Master {
    const site = {
      check: (bundle: string) => this.#checkBundle(bundle),
      reload: () => this.reload(),
      restart: () => this.#restart(),
    };
    const own = [this.bridge, createLocalClient(), ...edgeExtensions(site), this.#api];
    const { extensions = [] } = options;
    const master = createMaster({ ...options, extensions: [...extensions, ...own] });
    void master.closed.then((error) => {
      if (this.#restarting === undefined || error !== undefined) this.#tellClosed(error);
    });
    return master;
  }

  async #closeMaster(): Promise<void> {
    try {
      await this.#api.close();
    } finally {
      await this.master.close();
    }
  }

  async #checkBundle(bundle: string): Promise<readonly string[]> {
    const { checkSiteBundle } = await import('./site-config.ts');
    return checkSiteBundle((await this.#readOwn?.()) ?? this.master.config, bundle);
  }

  /** Restarts the master. If a restart is already in progress, the new restart begins after it. */
  #restart(): Promise<void> {
    const former = this.#restarting ?? Promise.resolve();
    const next = former.catch(() => {}).then(() => this.#restartOnce());
    this.#restarting = next;
    const end = (): void => {
      if (this.#restarting === next) this.#restarting = undefined;
    };
    void next.then(end, end);
    return next;
  }

  /**
   * Closes the master of a site, and starts it with the options that the central master has
   * published last (the bundle). If the master does not start, the site returns to its previous
   * bundle and starts the master again. If this start fails too, `closed` resolves with the error.
   */
  async #restartOnce(): Promise<void> {
    if (this.#isClosing) return;
    try {
      await this.#closeMaster();
      await this.#startAgain().catch(async (error: unknown) => {
        const { revertBundle } = await import('#edge');
        const isReverted = await revertBundle(this.master.config.stateDir, error);
        if (!isReverted) throw error;
        await this.master.close();
        await this.#startAgain();
      });
    } catch (error) {
      this.#tellClosed(error instanceof Error ? error : new Error(String(error)));
      throw error;
    }
  }

  async #startAgain(): Promise<void> {
    if (this.#isClosing) return;
    const { readConfig } = this.#options;
    const config = await readConfig?.();
    this.#master = this.#create({ ...this.#options, ...(config === undefined ? {} : { config }) });
    await this.#master.start();
  }
}
