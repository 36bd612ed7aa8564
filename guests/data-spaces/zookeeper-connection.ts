/** A session with a ZooKeeper server: its protocol [ZooKeeper 3.8: zookeeper.jute], as far as values need it. */

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

/** What ZooKeeper answers in place of a result. */
export const zookeeperCodes = {
  noNode: -101,
  badVersion: -103,
  nodeExists: -110,
} as const;

export class ZookeeperError extends Error {
  /** Of ZooKeeper's `KeeperException`. */
  readonly code: number;

  constructor(code: number) {
    super(`ZooKeeper answers with code ${code}`);
    this.code = code;
  }
}

export interface ZookeeperConnectionOptions {
  readonly host: string;
  readonly port: number;
  /** `undefined`: in the clear. */
  readonly tls: { readonly ca?: Buffer; readonly cert?: Buffer; readonly key?: Buffer } | undefined;
  /** `user:password` of the scheme `digest`. With it, nodes are theirs alone. */
  readonly credentials: string | undefined;
  /** Milliseconds for an answer. */
  readonly timeoutMs: number;
  /** A node that {@link ZookeeperConnection.exists} watches has changed: told once. */
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
/** In place of a number of a request. */
const xids = { notification: -1, ping: -2, auth: -4 } as const;
const allPermissions = 31;
const sessionMs = 15_000;
/** Bytes of an answer: a list of 10,000 names is the longest. */
const maxFrameBytes = 16_777_216;
/** Requests that have no answer yet. */
const maxPending = 20_000;

interface PendingRequest {
  readonly xid: number;
  readonly resolve: (answer: Reader) => void;
  readonly reject: (error: Error) => void;
}

/** Answers come in the order of the requests. It ends for good when it is lost. */
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
  /** Runs while an answer is awaited, from the last one that came. */
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
    this.#socket.on('close', () => this.#fail(new Error('the server ends the connection')));
  }

  /** With a session. @throws Error */
  static async open(options: ZookeeperConnectionOptions): Promise<ZookeeperConnection> {
    const connection = new ZookeeperConnection(options);
    await connection.#begin();
    return connection;
  }

  /** Fires when it is lost, with the reason. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  async create(node: string, data: Uint8Array): Promise<void> {
    const [scheme, id] =
      this.#options.credentials === undefined ? ['world', 'anyone'] : ['auth', ''];
    const acl = [int(1), int(allPermissions), text(scheme), text(id)];
    await this.#request(operations.create, [text(node), buffer(data), ...acl, int(0)]);
  }

  /** @throws ZookeeperError badVersion, noNode */
  async setData(node: string, data: Uint8Array, version: number): Promise<void> {
    await this.#request(operations.setData, [text(node), buffer(data), int(version)]);
  }

  /** @throws ZookeeperError noNode */
  async getData(node: string): Promise<{ readonly data: Uint8Array; readonly stat: NodeStat }> {
    const answer = await this.#request(operations.getData, [text(node), flag(false)]);
    return { data: answer.buffer(), stat: answer.stat() };
  }

  /** @param watches - whether to tell of its next change, or that it is made. @throws ZookeeperError noNode */
  async exists(node: string, watches: boolean): Promise<NodeStat> {
    return (await this.#request(operations.exists, [text(node), flag(watches)])).stat();
  }

  /** @throws ZookeeperError noNode */
  async children(node: string): Promise<readonly string[]> {
    const answer = await this.#request(operations.getChildren, [text(node), flag(false)]);
    const count = answer.int();
    return Array.from({ length: Math.min(count, maxFrameBytes / 4) }, () => answer.text());
  }

  /** Whatever version it has. @throws ZookeeperError noNode */
  async delete(node: string): Promise<void> {
    await this.#request(operations.delete, [text(node), int(-1)]);
  }

  /** Ends the session. */
  close(): void {
    if (this.#lost.signal.aborted) return;
    this.#socket.end(frame([int(0), int(operations.close)]));
    this.#fail(new Error('the connection was closed'));
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
    if (credentials !== undefined) {
      const auth = [int(0), text('digest'), buffer(Buffer.from(credentials))];
      await this.#request(operations.auth, auth, xids.auth);
    }
    this.#pings = setInterval(() => {
      this.#request(operations.ping, [], xids.ping).catch(() => {
        // It is lost, and whoever has it knows.
      });
    }, sessionMs / 3);
  }

  #request(operation: number, body: readonly Buffer[], given?: number): Promise<Reader> {
    if (this.lost.aborted) return Promise.reject(this.lost.reason);
    if (this.#pending.length >= maxPending) {
      return Promise.reject(new Error('too many requests wait for answers'));
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
    const late = (): void => this.#fail(new Error(`no answer in ${timeoutMs} ms`));
    this.#deadline = setTimeout(late, timeoutMs);
  }

  #receive(bytes: Buffer): void {
    this.#received.push(bytes);
    this.#receivedBytes += bytes.length;
    let all = this.#received.length > 1 && this.#isWhole() ? this.#joined() : this.#received[0];
    while (all !== undefined && all.length >= 4 && !this.lost.aborted) {
      const length = all.readInt32BE(0);
      if (length < 0 || length > maxFrameBytes) {
        this.#fail(new Error(`a frame of ${length} bytes`));
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

  /** Whether the first frame of what was received is whole, as far as is known. */
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
    if (answer.int() <= 0) throw new Error('ZooKeeper gives no session');
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
    const request = this.#pending.shift();
    if (request?.xid !== xid) throw new Error(`an answer to request ${xid}, out of order`);
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
    // What was written goes out before.
    this.#socket.destroySoon();
  }
}
