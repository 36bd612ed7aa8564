/**
 * Serves Salt's own clients (`LocalClient`, `salt`, `salt-run`, `get_event`) on the master's host: a port
 * on the loopback address for their requests, two sockets for events, and a configuration that points to
 * them. Off until somebody enables it; then it is served at each start of the master.
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
import { KeyedMutex } from '#runtime';
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

/** Whether and how Salt's own clients are served. */
export interface LocalClientStatus {
  readonly isEnabled: boolean;
  /** For `-c` and `SALT_CLIENT_CONFIG`. */
  readonly directory: string;
  /** On 127.0.0.1. Absent: nothing is served. */
  readonly port?: number;
  /** Clients that read events now. */
  readonly eventReaders: number;
  /** Requests whose key, log-in or rights were refused, since the start. */
  readonly refused: number;
  /** Why nothing is served although it is enabled. */
  readonly problem?: string;
}

/** The extension, for `createMaster`. */
export function createLocalClient(): MasterExtension {
  return { name: 'localclient', open: openLocalClient };
}

/** Beside Salt's own 4505 and 4506. */
const defaultPort = 4507;
const enabledKey = ['enabled'];

/** The row `enabled`; it is there while the sockets are served. */
const enabledRow = defineRow({
  name: 'port of the local client',
  schema: Type.Object({ port: Type.Number() }),
  unversioned: unpackLocal,
});

/** Only programs of this host reach the port, and each request is a connection of its own. */
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

/** What is served now. */
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

  /** A port that is taken keeps no minion from being served. */
  async start(): Promise<void> {
    await this.#mutex.run('', async () => {
      const port = await this.#enabledPort();
      if (port === undefined) return;
      try {
        this.#served = await this.#serve(port);
      } catch (error) {
        this.#problem ??= error instanceof Error ? error.message : String(error);
        this.#host.logger.error({ err: error }, "Salt's own clients are not served");
      }
    });
  }

  /** Serves from now on, also after a restart. @throws TransportError ERR_LISTEN, MasterError */
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

  /** Serves nobody, and takes the key away. */
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

  /** The files that clients look for come last: whoever finds them is served. */
  async #serve(wanted: number): Promise<Served> {
    const { config, logger: log, now } = this.#host;
    const master = this.#host.master();
    const account = ownAccount();
    const paths = this.#paths();
    // A port that somebody else has must get no key of clients that take the master for running.
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
      this.#problem = error instanceof Error ? error.message : String(error);
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
