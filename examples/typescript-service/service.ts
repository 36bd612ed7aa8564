/**
 * A service in TypeScript that contains a Salt master. `serve` starts the master, the bridge and
 * the HTTP API in the service's process. The service restarts the shop on each web server that
 * starts, and on request.
 */
import { loadSaltConfig, type MasterServer, type ServeOptions, serve } from 'saltbridge';
import type { CommandOutcome } from 'saltbridge/bridge';

export class WebService {
  readonly server: MasterServer;
  /** Restarts of the shop because its web server has started, in order. */
  readonly restarts: CommandOutcome[] = [];
  readonly #closing = new AbortController();

  private constructor(server: MasterServer) {
    this.server = server;
  }

  /** @param directory - configuration directory such as `/etc/salt` */
  static async start(
    directory: string,
    logger: NonNullable<ServeOptions['logger']>,
  ): Promise<WebService> {
    const config = await loadSaltConfig(directory);
    const service = new WebService(await serve({ config, logger, service: 'web-service' }));
    service.#restartStarting().catch((error: unknown) => {
      if (!service.#closing.signal.aborted) logger.error({ err: error }, 'events have ended');
    });
    return service;
  }

  /**
   * @param request - id that the caller gives to the request. The same id means the same run, even
   * after a crash
   * @throws BridgeError if the policy or the command's schema does not permit it
   */
  async restart(target: string, name: string, request?: string): Promise<CommandOutcome> {
    const run = await this.server.bridge.run('web.restart', {
      target,
      params: { name },
      ...(request === undefined ? {} : { idempotencyKey: request }),
    });
    return await run.outcome;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.server.close();
  }

  async #restartStarting(): Promise<void> {
    const match = 'salt/minion/web*/start';
    const { events } = this.server.master;
    for await (const { tag } of await events.subscribe({ match }, this.#closing.signal)) {
      const [, , minion = ''] = tag.split('/');
      this.restarts.push(await this.restart(minion, 'shop'));
    }
  }
}
