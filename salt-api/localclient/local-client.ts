/**
 * Serves Salt's own clients (`LocalClient`, `salt`, `salt-run`, `get_event`) on the master's host.
 * It opens a loopback port for their requests and two sockets for events, and writes a
 * configuration with these addresses. The service is disabled by default. Once enabled, it starts
 * whenever the master starts.
 */

import Type from 'typebox';
import {
  type ExtensionHost,
  extensionMethod,
  type MasterExtension,
  type OpenExtension,
  type RpcTable,
} from '#master';
import { createZeromqRequestListener, type MasterTransport, unpackLocal } from '#minion-protocol';
import { errorMessage, KeyedMutex } from '#runtime';
import { defineRow } from '#store';
import {
  clientPaths,
  ownAccount,
  prepareClientFiles,
  removeClientFiles,
  removeMarks,
  writeClientConfig,
} from './client-files.ts';
import { EventSockets } from './event-sockets.ts';
import { LocalRequests } from './requests.ts';

/** State of the service for Salt's own clients. */
export interface LocalClientStatus {
  readonly isEnabled: boolean;
  /** Directory to use with `-c` and `SALT_CLIENT_CONFIG`. */
  readonly directory: string;
  /** Port on 127.0.0.1. Absent if the service is not running. */
  readonly port?: number;
  /** Number of clients that are reading events. */
  readonly eventReaders: number;
  /** Number of requests since the start that were rejected for their key, log-in or rights. */
  readonly refused: number;
  /** Reason why the service is enabled but not running. */
  readonly problem?: string;
}

/** Creates the extension for `createMaster`. */
export function createLocalClient(): MasterExtension {
  return { name: 'localclient', open: openLocalClient };
}

/** Default port, close to Salt's own ports 4505 and 4506. */
const defaultPort = 4507;
const enabledKey = ['enabled'];

/** Schema of the store's row `enabled`, which exists while the service is enabled. */
const enabledRow = defineRow({
  name: "port for Salt's local clients",
  schema: Type.Object({ port: Type.Number() }),
  unversioned: unpackLocal,
});

/**
 * Connection limits. Only programs on this host can reach the port, and each request uses a new
 * connection.
 */
const connectionLimits = {
  maxConnections: 512,
  maxConnectionsPerAddress: 512,
  maxNewConnectionsPerAddress: 128,
  maxActiveRequests: 64,
  maxHeldBytes: 64 * 1024 * 1024,
  maxHeldBytesPerAddress: 64 * 1024 * 1024,
};

async function openLocalClient(host: ExtensionHost): Promise<OpenExtension> {
  const client = new LocalClientServer(host);
  return {
    rpc: methodsOf(client),
    start: () => client.start(),
    close: () => client.close(),
  };
}

function methodsOf(client: LocalClientServer): RpcTable {
  const strict = { additionalProperties: false };
  const Nothing = Type.Object({}, strict);
  const Port = Type.Integer({ minimum: 0, maximum: 65_535 });
  return {
    enable: extensionMethod({
      parameters: Type.Object({ port: Type.Optional(Port) }, strict),
      access: 'host',
      isIdempotent: true,
      call: (_api, { port }) => client.enable(port),
      audit: {
        action: 'localclient.enable',
        done: (_parameters, { port }: LocalClientStatus) => ({ what: `port ${port}` }),
      },
    }),
    disable: extensionMethod({
      parameters: Nothing,
      access: 'host',
      isIdempotent: true,
      call: () => client.disable(),
      audit: { action: 'localclient.disable', done: () => ({}) },
    }),
    status: extensionMethod({
      parameters: Nothing,
      access: 'host',
      isIdempotent: true,
      call: () => client.status(),
    }),
  };
}

/** Port, listener and handlers of the service while it is running. */
interface Served {
  readonly port: number;
  readonly listener: MasterTransport;
  readonly requests: LocalRequests;
  readonly sockets: EventSockets;
}

class LocalClientServer {
  readonly #host: ExtensionHost;
  readonly #mutex = new KeyedMutex();
  #served: Served | undefined;
  #problem: string | undefined;

  constructor(host: ExtensionHost) {
    this.#host = host;
  }

  /**
   * Starts the service if it is enabled. If its port is in use, the master starts without the
   * service.
   */
  async start(): Promise<void> {
    await this.#mutex.run('', async () => {
      const port = await this.#enabledPort();
      if (port === undefined) return;
      try {
        this.#served = await this.#serve(port);
      } catch (error) {
        this.#problem ??= errorMessage(error);
        this.#host.logger.error(
          { err: error },
          "cannot start the service for Salt's own clients (LocalClient, salt, salt-run)",
        );
      }
    });
  }

  /**
   * Enables the service: starts it now, and at each later start of the master.
   * @throws TransportError ERR_LISTEN, MasterError
   */
  enable(port?: number): Promise<LocalClientStatus> {
    return this.#mutex.run('', async () => {
      const wanted = port ?? (await this.#enabledPort()) ?? defaultPort;
      if (this.#served === undefined || (port !== undefined && port !== this.#served.port)) {
        await this.#stop();
        this.#served = await this.#serve(wanted);
      }
      const value = enabledRow.encode({ port: this.#served.port });
      await this.#host.state.write([{ op: 'put', key: enabledKey, value }]);
      return this.#status(true);
    });
  }

  /** Disables the service: stops it and removes the key. */
  disable(): Promise<LocalClientStatus> {
    return this.#mutex.run('', async () => {
      await this.#host.state.write([{ op: 'delete', key: enabledKey }]);
      await this.#stop();
      await removeClientFiles(this.#paths());
      return this.#status(false);
    });
  }

  async status(): Promise<LocalClientStatus> {
    return this.#status((await this.#enabledPort()) !== undefined);
  }

  close(): Promise<void> {
    return this.#mutex.run('', () => this.#stop());
  }

  #paths(): ReturnType<typeof clientPaths> {
    return clientPaths(this.#host.config.stateDir, ownAccount());
  }

  #status(isEnabled: boolean): LocalClientStatus {
    const { port, sockets, requests } = this.#served ?? {};
    return {
      isEnabled,
      directory: this.#paths().directory,
      ...(port === undefined ? {} : { port }),
      eventReaders: sockets?.readers ?? 0,
      refused: requests?.refused ?? 0,
      ...(this.#problem === undefined ? {} : { problem: this.#problem }),
    };
  }

  async #enabledPort(): Promise<number | undefined> {
    const row = await this.#host.state.get(enabledKey);
    return row && enabledRow.decode(row).port;
  }

  /**
   * Starts the service. The files by which clients recognise a running master are written last,
   * when the service is ready.
   */
  async #serve(wanted: number): Promise<Served> {
    const { config, logger: log, now } = this.#host;
    const master = this.#host.master();
    const account = ownAccount();
    const paths = this.#paths();
    // Another process may be using the port. Clients must not recognise a running master then,
    // because they would send their key to that process.
    await removeMarks(paths);
    const key = await prepareClientFiles(paths);
    const requests = new LocalRequests({ master, own: { account, key }, now, log });
    const listener = createZeromqRequestListener({
      host: '127.0.0.1',
      requestPort: wanted,
      limits: { ...connectionLimits, maxMessageBytes: config.limits.requestBytes },
    });
    const sockets = new EventSockets({
      paths,
      events: master.events,
      maxEventBytes: config.maxEventSize,
      log,
    });
    try {
      await sockets.open();
      const { requestPort: port } = await listener.listen((request) => requests.handle(request));
      await writeClientConfig(paths, { ...this.#clientConfig(), account, port });
      log.info(
        { address: '127.0.0.1', port, directory: paths.directory },
        "serves Salt's own clients",
      );
      this.#problem = undefined;
      return { port, listener, requests, sockets };
    } catch (error) {
      await Promise.all([listener.close(0), sockets.close()]);
      this.#problem = errorMessage(error);
      throw error;
    }
  }

  #clientConfig(): Pick<ExtensionHost, 'config' | 'reloadable'> {
    const { config, reloadable } = this.#host;
    return { config, reloadable };
  }

  async #stop(): Promise<void> {
    const served = this.#served;
    this.#served = undefined;
    this.#problem = undefined;
    if (served === undefined) return;
    await removeMarks(this.#paths());
    await Promise.all([served.listener.close(), served.sockets.close()]);
  }
}
