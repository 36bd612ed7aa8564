/**
 * Session with a ZooKeeper server. Implements only the parts of the protocol that values require
 * [ZooKeeper 3.8: zookeeper.jute].
 */

import net from 'node:net';
import tls from 'node:tls';
import {
  buffer,
  flag,
  frame,
  int,
  long,
  type NodeStat,
  Reader,
  text,
} from './zookeeper-records.ts';

/** Error codes of ZooKeeper. */
export const zookeeperCodes = {
  noNode: -101,
  badVersion: -103,
  nodeExists: -110,
} as const;

export class ZookeeperError extends Error {
  /** Code of ZooKeeper's `KeeperException`. */
  readonly code: number;

  constructor(code: number) {
    super(`ZooKeeper responded with the error code ${code}`);
    this.code = code;
  }
}

export interface ZookeeperConnectionOptions {
  readonly host: string;
  readonly port: number;
  /** TLS options. `undefined` for an unencrypted connection. */
  readonly tls: { readonly ca?: Buffer; readonly cert?: Buffer; readonly key?: Buffer } | undefined;
  /**
   * Credentials `user:password` of the scheme `digest`. If set, new nodes are accessible to this
   * user only.
   */
  readonly credentials: string | undefined;
  /** Timeout of a response, in milliseconds. */
  readonly timeoutMs: number;
  /**
   * Called once with the path of a watched node when the node changes. {@link
   * ZookeeperConnection.exists} begins to watch a node.
   */
  readonly onChange: (node: string) => void;
}

const operations = {
  create: 1,
  delete: 2,
  exists: 3,
  getData: 4,
  setData: 5,
  getChildren: 8,
  ping: 11,
  auth: 100,
  close: -11,
} as const;
/** Request numbers with a special meaning. */
const xids = { notification: -1, ping: -2, auth: -4 } as const;
const allPermissions = 31;
const sessionMs = 15_000;
/** Maximum size of a response, in bytes. The largest is a list of 10,000 names. */
const maxFrameBytes = 16_777_216;
/** Maximum number of pending requests. */
const maxPending = 20_000;

interface PendingRequest {
  readonly xid: number;
  readonly resolve: (answer: Reader) => void;
  readonly reject: (error: Error) => void;
}

/**
 * Connection with a session. Responses arrive in the order of requests. A lost connection is not
 * reopened.
 */
export class ZookeeperConnection {
  readonly #socket: net.Socket;
  readonly #options: ZookeeperConnectionOptions;
  readonly #lost = new AbortController();
  readonly #pending: PendingRequest[] = [];
  #received: Buffer[] = [];
  #receivedBytes = 0;
  #xid = 0;
  #onSession: (() => void) | undefined;
  #pings: NodeJS.Timeout | undefined;
  /**
   * Timer that ends the connection if ZooKeeper does not respond in time. It runs while responses
   * are pending, and is restarted at each response.
   */
  #deadline: NodeJS.Timeout | undefined;

  private constructor(options: ZookeeperConnectionOptions) {
    this.#options = options;
    const { host, port } = options;
    const servername = net.isIP(host) === 0 ? { servername: host } : {};
    this.#socket =
      options.tls === undefined
        ? net.connect(port, host)
        : tls.connect({ host, port, ...servername, ...options.tls });
    this.#socket.setNoDelay();
    this.#socket.on('data', (bytes: Buffer) => this.#receive(bytes));
    this.#socket.on('error', (error) => this.#fail(error));
    this.#socket.on('close', () => this.#fail(new Error('ZooKeeper closed the connection')));
  }

  /**
   * Opens a connection with a session.
   * @throws Error
   */
  static async open(options: ZookeeperConnectionOptions): Promise<ZookeeperConnection> {
    const connection = new ZookeeperConnection(options);
    await connection.#begin();
    return connection;
  }

  /** Aborted when the connection is lost, with the reason. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  async create(node: string, data: Uint8Array): Promise<void> {
    const [scheme, id] =
      this.#options.credentials === undefined ? ['world', 'anyone'] : ['auth', ''];
    const acl = [int(1), int(allPermissions), text(scheme), text(id)];
    await this.#request(operations.create, [text(node), buffer(data), ...acl, int(0)]);
  }

  /**
   * Replaces the data of a node, if it has this version.
   * @throws ZookeeperError badVersion, noNode
   */
  async setData(node: string, data: Uint8Array, version: number): Promise<void> {
    await this.#request(operations.setData, [text(node), buffer(data), int(version)]);
  }

  /**
   * Returns the data of a node.
   * @throws ZookeeperError noNode
   */
  async getData(node: string): Promise<{ readonly data: Uint8Array; readonly stat: NodeStat }> {
    const answer = await this.#request(operations.getData, [text(node), flag(false)]);
    return { data: answer.buffer(), stat: answer.stat() };
  }

  /**
   * Returns the metadata of a node.
   * @param watches - whether to report the next change of the node, or its creation
   * @throws ZookeeperError noNode
   */
  async exists(node: string, watches: boolean): Promise<NodeStat> {
    return (await this.#request(operations.exists, [text(node), flag(watches)])).stat();
  }

  /**
   * Returns the names of a node's children.
   * @throws ZookeeperError noNode
   */
  async children(node: string): Promise<readonly string[]> {
    const answer = await this.#request(operations.getChildren, [text(node), flag(false)]);
    const count = answer.int();
    return Array.from({ length: Math.min(count, maxFrameBytes / 4) }, () => answer.text());
  }

  /**
   * Deletes a node, whatever its version is.
   * @throws ZookeeperError noNode
   */
  async delete(node: string): Promise<void> {
    await this.#request(operations.delete, [text(node), int(-1)]);
  }

  /** Ends the session. */
  close(): void {
    if (this.#lost.signal.aborted) return;
    this.#socket.end(frame([int(0), int(operations.close)]));
    this.#fail(new Error('the connection to ZooKeeper was closed by this master'));
  }

  async #begin(): Promise<void> {
    const { credentials } = this.#options;
    this.#awaitAnswer();
    const session = new Promise<void>((resolve, reject) => {
      this.#onSession = resolve;
      this.lost.addEventListener('abort', () => reject(this.lost.reason), { once: true });
    });
    const hello = [int(0), long(), int(sessionMs), long(), buffer(new Uint8Array(16)), flag(false)];
    this.#socket.write(frame(hello));
    await session;
    // The same chunk may contain the session and an invalid message.
    if (this.lost.aborted) throw this.lost.reason;
    if (credentials !== undefined) {
      const auth = [int(0), text('digest'), buffer(Buffer.from(credentials))];
      await this.#request(operations.auth, auth, xids.auth);
    }
    this.#pings = setInterval(() => {
      this.#request(operations.ping, [], xids.ping).catch(() => {
        // Ignore the rejection, because `lost` reports the loss of the connection.
      });
    }, sessionMs / 3);
  }

  #request(operation: number, body: readonly Buffer[], given?: number): Promise<Reader> {
    if (this.lost.aborted) return Promise.reject(this.lost.reason);
    if (this.#pending.length >= maxPending) {
      return Promise.reject(new Error('too many requests wait for a response of ZooKeeper'));
    }
    this.#xid = (this.#xid + 1) & 0x7fffffff;
    const xid = given ?? this.#xid;
    return new Promise((resolve, reject) => {
      this.#pending.push({ xid, resolve, reject });
      if (this.#deadline === undefined) this.#awaitAnswer();
      this.#socket.write(frame([int(xid), int(operation), ...body]));
    });
  }

  #awaitAnswer(): void {
    const { timeoutMs } = this.#options;
    clearTimeout(this.#deadline);
    const late = (): void =>
      this.#fail(new Error(`ZooKeeper did not respond within ${timeoutMs} ms`));
    this.#deadline = setTimeout(late, timeoutMs);
  }

  #receive(bytes: Buffer): void {
    this.#received.push(bytes);
    this.#receivedBytes += bytes.length;
    let all = this.#received.length > 1 && this.#isWhole() ? this.#joined() : this.#received[0];
    while (all !== undefined && all.length >= 4 && !this.lost.aborted) {
      const length = all.readInt32BE(0);
      if (length < 0 || length > maxFrameBytes) {
        this.#fail(new Error(`ZooKeeper sent a message with the invalid length ${length}`));
        return;
      }
      if (all.length < length + 4) break;
      this.#handle(new Reader(all.subarray(4, length + 4)));
      all = all.subarray(length + 4);
    }
    if (all !== undefined && this.#received.length <= 1) {
      this.#received = all.length === 0 ? [] : [all];
      this.#receivedBytes = all.length;
    }
  }

  /**
   * Whether the received chunks contain the whole first frame. Also true if the first chunk is too
   * short to contain the length of the frame.
   */
  #isWhole(): boolean {
    const [first] = this.#received;
    return (
      first === undefined || first.length < 4 || this.#receivedBytes >= first.readInt32BE(0) + 4
    );
  }

  #joined(): Buffer {
    const all = Buffer.concat(this.#received);
    this.#received = [all];
    return all;
  }

  #handle(answer: Reader): void {
    try {
      if (this.#onSession === undefined) this.#handleReply(answer);
      else this.#handleSession(answer);
    } catch (error) {
      this.#fail(error instanceof Error ? error : new Error(String(error)));
    }
  }

  #handleSession(answer: Reader): void {
    answer.int();
    if (answer.int() <= 0) throw new Error('ZooKeeper refused to open a session');
    this.#onSession?.();
    this.#onSession = undefined;
    clearTimeout(this.#deadline);
    this.#deadline = undefined;
  }

  #handleReply(answer: Reader): void {
    const xid = answer.int();
    answer.long();
    const code = answer.int();
    if (xid === xids.notification) {
      answer.int();
      answer.int();
      this.#options.onChange(answer.text());
      return;
    }
    const [request] = this.#pending;
    // The request stays pending, so that it fails together with the connection.
    if (request?.xid !== xid)
      throw new Error(`ZooKeeper responded to request ${xid} before earlier requests`);
    this.#pending.shift();
    clearTimeout(this.#deadline);
    this.#deadline = undefined;
    if (this.#pending.length > 0) this.#awaitAnswer();
    if (code === 0) request.resolve(answer);
    else request.reject(new ZookeeperError(code));
    if (xid === xids.auth && code !== 0) throw new ZookeeperError(code);
  }

  #fail(reason: Error): void {
    if (this.lost.aborted) return;
    clearTimeout(this.#deadline);
    clearInterval(this.#pings);
    this.#lost.abort(reason);
    for (const { reject } of this.#pending.splice(0)) reject(reason);
    this.#received = [];
    // `destroySoon` sends pending writes before it closes the socket.
    this.#socket.destroySoon();
  }
}
