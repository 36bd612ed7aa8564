/** Storage of data space values in ZooKeeper. */

import { inTime, RepeatedWarnings, retryDelayMs, sleepUntilAborted } from '#runtime';
import { ChangeListeners, type Coordinator, unavailableError } from './coordinator.ts';
import {
  ZookeeperConnection,
  type ZookeeperConnectionOptions,
  ZookeeperError,
  zookeeperCodes,
} from './zookeeper-connection.ts';

/** Credentials and certificates for a connection, which are read from files. */
export type ZookeeperAccess = Pick<ZookeeperConnectionOptions, 'credentials' | 'tls'>;

export interface ZookeeperCoordinatorOptions {
  /** Servers. Each connection uses a random one. */
  readonly servers: readonly { readonly host: string; readonly port: number }[];
  /** Node below which values are stored: `/saltbridge/data`. */
  readonly root: string;
  /**
   * Reads the credentials. It is called for each connection, in case the files have been renewed.
   * @throws Error
   */
  readonly readAccess: () => Promise<ZookeeperAccess>;
  /** Timeout of a response, in milliseconds. */
  readonly timeoutMs: number;
  readonly log: { warn(about: object, message: string): void };
}

const reconnectDelays = { initialDelayMs: 200, maxDelayMs: 10_000 };
/** Maximum number of ZooKeeper nodes that are read or deleted at a time. */
const batchSize = 200;
const ofRequest: ReadonlySet<number> = new Set(Object.values(zookeeperCodes));

/** Connection, and the nodes that are watched through it. */
interface Session {
  readonly connection: ZookeeperConnection;
  readonly watched: Set<string>;
}

/**
 * Coordinator that stores values in ZooKeeper, each in the node `<root>/<space>/<key>`. ZooKeeper
 * counts the versions of a node from 0, so the version of a value is higher by one.
 */
export class ZookeeperCoordinator implements Coordinator {
  readonly #options: ZookeeperCoordinatorOptions;
  readonly #changes = new ChangeListeners();
  readonly #warnings: RepeatedWarnings;
  readonly #closing = new AbortController();
  readonly #connecting: Promise<void>;
  #session: Session | undefined;

  constructor(options: ZookeeperCoordinatorOptions) {
    this.#options = options;
    this.#warnings = new RepeatedWarnings(options.log);
    this.#connecting = this.#stayConnected();
  }

  async get(space: string, key: string): ReturnType<Coordinator['get']> {
    const found = await orNothing(this.#ask((it) => it.getData(this.#nodeOf(space, key))));
    return found && { value: found.data, version: found.stat.version + 1 };
  }

  async put(
    space: string,
    key: string,
    { value, version }: Parameters<Coordinator['put']>[2],
  ): Promise<boolean> {
    const node = this.#nodeOf(space, key);
    try {
      if (version === 1) await this.#create(node, value);
      else await this.#ask((it) => it.setData(node, value, version - 2));
      return true;
    } catch (error) {
      if (error instanceof ZookeeperError) return false;
      throw error;
    }
  }

  /**
   * Watches a key. ZooKeeper handles requests in order, so a read after this call misses no change.
   */
  watch(space: string, key: string, listener: () => void): () => void {
    const stop = this.#changes.add(space, key, listener);
    if (this.#session !== undefined) this.#watchOnce(this.#session, this.#nodeOf(space, key));
    return stop;
  }

  async sizes(space: string): Promise<ReadonlyMap<string, number>> {
    const sizes = new Map<string, number>();
    await this.#forEachChild(space, async (node, key) => {
      const stat = await orNothing(this.#ask((it) => it.exists(node, false)));
      if (stat !== undefined) sizes.set(key, stat.dataLength);
    });
    return sizes;
  }

  async remove(space: string): Promise<void> {
    const remove = (node: string): Promise<void> =>
      orNothing(this.#ask((it) => it.delete(node))).then(() => {});
    await this.#forEachChild(space, remove);
    await remove(this.#nodeOf(space));
    this.#changes.tellSpace(space);
  }

  isConnected(): boolean {
    return this.#session !== undefined;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#connecting;
  }

  /**
   * Returns the path of the node for a key. Names are encoded, so that they contain no slashes and
   * no characters that ZooKeeper rejects.
   */
  #nodeOf(space: string, key?: string): string {
    const node = `${this.#options.root}/${encodeURIComponent(space)}`;
    return key === undefined ? node : `${node}/${encodeURIComponent(key)}`;
  }

  #keyOf(node: string): readonly [space: string, key: string] {
    const [space = '', key = ''] = node.slice(this.#options.root.length + 1).split('/');
    return [decodeURIComponent(space), decodeURIComponent(key)];
  }

  async #forEachChild(
    space: string,
    work: (node: string, key: string) => Promise<void>,
  ): Promise<void> {
    const above = this.#nodeOf(space);
    const names = (await orNothing(this.#ask((it) => it.children(above)))) ?? [];
    for (let from = 0; from < names.length; from += batchSize) {
      const batch = names.slice(from, from + batchSize);
      await Promise.all(batch.map((name) => work(`${above}/${name}`, decodeURIComponent(name))));
    }
  }

  /** Creates a node, after its missing parents. */
  async #create(node: string, data: Uint8Array): Promise<void> {
    try {
      await this.#ask((it) => it.create(node, data));
    } catch (error) {
      if (!isCode(error, zookeeperCodes.noNode)) throw error;
      await this.#create(node.slice(0, node.lastIndexOf('/')), new Uint8Array()).catch(
        (problem: unknown) => {
          // Another client has created it meanwhile.
          if (!isCode(problem, zookeeperCodes.nodeExists)) throw problem;
        },
      );
      await this.#ask((it) => it.create(node, data));
    }
  }

  #watchOnce({ connection, watched }: Session, node: string): void {
    if (watched.has(node)) return;
    watched.add(node);
    connection.exists(node, true).catch((error: unknown) => {
      // A missing node is watched too. Any other error means that the connection is lost.
      if (!isCode(error, zookeeperCodes.noNode)) watched.delete(node);
    });
  }

  #onChange(node: string): void {
    this.#session?.watched.delete(node);
    const [space, key] = this.#keyOf(node);
    if (this.#session !== undefined && this.#changes.has(space, key)) {
      this.#watchOnce(this.#session, node);
    }
    this.#changes.tell(space, key);
  }

  /**
   * Sends a request.
   * @throws BridgeError ERR_DATA_UNAVAILABLE; ZookeeperError of the request
   */
  async #ask<T>(call: (connection: ZookeeperConnection) => Promise<T>): Promise<T> {
    const session = this.#session;
    if (session === undefined) throw unavailableError(new Error('no connection'));
    try {
      return await call(session.connection);
    } catch (error) {
      if (error instanceof ZookeeperError && ofRequest.has(error.code)) throw error;
      this.#warn('call', error);
      throw unavailableError(error);
    }
  }

  async #stayConnected(): Promise<void> {
    const { signal } = this.#closing;
    for (let failures = 0; !signal.aborted; ) {
      const { servers } = this.#options;
      const server = servers[Math.floor(Math.random() * servers.length)];
      try {
        const connection = await this.#connect(server ?? { host: 'localhost', port: 2181 });
        failures = 0;
        await this.#use({ connection, watched: new Set() });
        throw connection.lost.reason;
      } catch (error) {
        if (!signal.aborted) this.#warn('connection', error);
      }
      failures += 1;
      const pause = retryDelayMs(failures, reconnectDelays, Math.random);
      await sleepUntilAborted(pause, signal);
    }
  }

  async #connect(server: {
    readonly host: string;
    readonly port: number;
  }): Promise<ZookeeperConnection> {
    const { readAccess, timeoutMs } = this.#options;
    return ZookeeperConnection.open({
      ...server,
      ...(await readAccess()),
      timeoutMs,
      onChange: (node) => this.#onChange(node),
    });
  }

  /** Uses a session until its connection is lost. */
  async #use(session: Session): Promise<void> {
    const { connection } = session;
    const lost = new Promise<void>((resolve) => {
      if (connection.lost.aborted) resolve();
      else connection.lost.addEventListener('abort', () => resolve(), { once: true });
    });
    this.#session = session;
    for (const [space, key] of this.#changes.watched) {
      this.#watchOnce(session, this.#nodeOf(space, key));
    }
    this.#changes.tellAll();
    await inTime(lost, this.#closing.signal);
    this.#session = undefined;
    connection.close();
  }

  #warn(kind: string, error: unknown): void {
    if (this.#closing.signal.aborted) return;
    const text = 'ZooKeeper, which stores the values of data spaces, does not respond';
    this.#warnings.warn(kind, { err: error }, text);
  }
}

/** Returns the result of a request. Returns `undefined` if the node does not exist. */
async function orNothing<T>(asked: Promise<T>): Promise<T | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (isCode(error, zookeeperCodes.noNode)) return undefined;
    throw error;
  }
}

function isCode(error: unknown, code: number): boolean {
  return error instanceof ZookeeperError && error.code === code;
}
