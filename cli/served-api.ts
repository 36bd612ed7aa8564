/** Salt's HTTP API of a served master: an extension, so that the master does not start without it. */
import type { Logger } from 'pino';
import type { Bridge } from '../heat-bridge/index.ts';
import type { ExtensionHost, MasterExtension, OpenExtension } from '../master/index.ts';
import type { SaltApi } from '../salt-api/index.ts';

/** See above. Where the configuration asks for no API there is none. */
export class ServedApi implements MasterExtension {
  readonly name = 'salt-api';
  readonly #bridge: Bridge;
  readonly #logger: Logger;
  #api: SaltApi | undefined;

  /** @param bridge - whose routes are served besides; an extension of the same master, before it */
  constructor(bridge: Bridge, logger: Logger) {
    this.#bridge = bridge;
    this.#logger = logger;
  }

  async open(host: ExtensionHost): Promise<OpenExtension> {
    return { start: () => this.#start(host), close: () => this.close() };
  }

  /** Ends streams and lets requests finish, while the master can still answer them. */
  async close(): Promise<void> {
    await this.#api?.close();
  }

  /** Takes a renewed certificate over at once. @returns the certificates that are in force anew */
  async renewCertificate(): Promise<readonly string[]> {
    return (await this.#api?.renewCertificate()) ?? [];
  }

  async #start({ config, master }: ExtensionHost): Promise<void> {
    if ((config.api ?? config.restCherrypy) === null) return;
    const { createSaltApi, saltApiOptions } = await import('../salt-api/index.ts');
    const options = saltApiOptions(config);
    if (options === undefined) return;
    const logger = this.#logger.child({ component: 'salt-api' });
    this.#api = await createSaltApi(master(), { ...options, logger, plugins: [this.#bridge.http] });
    const { address, port } = await this.#api.listen();
    logger.info({ address, port }, 'http api started');
  }
}
