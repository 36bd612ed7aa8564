/** A client of the link that sends any bytes, with or without the key of a site. */

import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import type { ExecutionContext } from 'ava';
import { WebSocket } from 'ws';
import { joinSite } from '#edge';
import { type SiteIdentity, SiteIdentityFile } from '#edge/identity/site-identity.ts';
import { decodeFrame, encodeFrame, type Frame } from '#edge/link/frames.ts';
import {
  encodeHello,
  encodeProof,
  type Hello,
  helloHeader,
  unsignedHello,
} from '#edge/link/handshake.ts';
import { encodeBatch, type SentItem } from '#edge/log/log-codec.ts';
import { packLocal, type WireMap, type WireValue } from '#minion-protocol';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { type Centre, createTicket, stateDirOf } from './edge-stage.ts';

/** Joins a site without a master. Returns its identity. */
export async function joinRaw(
  t: ExecutionContext,
  centre: Centre,
  name: string,
): Promise<SiteIdentity> {
  const stateDir = stateDirOf(temporaryDirectory(t));
  const { ticket } = await createTicket(centre, name);
  await joinSite(ticket, { stateDir, site: { name, centre: centre.url } });
  const identity = await new SiteIdentityFile(`${stateDir}/site`).read();
  if (identity === undefined) throw new Error('the site has no identity');
  return identity;
}

/** Connection to the link of a centre. */
export class RawLink {
  readonly socket: WebSocket;
  /** Resolves with the status code when the connection has ended. */
  readonly closed: Promise<number>;
  /** Socket below the WebSocket. */
  raw: Socket | undefined;
  readonly #messages: Buffer[] = [];
  #wake: () => void = () => {};
  #nextId = 1;

  private constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on('message', (data) => {
      if (Buffer.isBuffer(data)) this.#messages.push(data);
      this.#wake();
    });
    this.closed = new Promise((resolve) => {
      socket.on('close', (code) => {
        this.#wake();
        resolve(code);
      });
    });
    socket.on('upgrade', (response) => {
      this.raw = response.socket;
    });
    socket.on('error', () => {});
  }

  /** Connects. Fails with the HTTP status if the centre rejects the request. */
  static async open(
    t: ExecutionContext,
    centre: Pick<Centre, 'url'>,
    headers: Readonly<Record<string, string>> = {},
    tls: ConnectionOptions & { readonly localAddress?: string } = {},
  ): Promise<RawLink> {
    const url = `${centre.url.replace('http', 'ws')}/site/v1/link`;
    const socket = new WebSocket(url, { perMessageDeflate: false, headers, ...tls });
    t.teardown(() => socket.terminate());
    const link = new RawLink(socket);
    await new Promise<void>((resolve, reject) => {
      socket.on('open', resolve);
      socket.on('unexpected-response', (_request, { statusCode }) =>
        reject(new Error(`status ${statusCode}`)),
      );
      socket.on('error', reject);
    });
    return link;
  }

  /** Connects and performs the handshake with the key of a site. */
  static async signIn(
    t: ExecutionContext,
    centre: Pick<Centre, 'url'>,
    identity: Pick<SiteIdentity, 'key' | 'name'>,
    changed: Partial<Hello> = {},
  ): Promise<RawLink> {
    const link = await RawLink.open(t, centre);
    const hello = helloOf(identity.name, changed);
    link.socket.send(unsignedHello(hello));
    const challenge = await link.next();
    link.socket.send(encodeProof(identity.key, hello, challenge, Buffer.alloc(0)));
    return link;
  }

  /** Connects with the hello in the upgrade request, as sites do, and sends the proof. */
  static async signInAtOnce(
    t: ExecutionContext,
    centre: Centre,
    { name, key }: Pick<SiteIdentity, 'key' | 'name'>,
  ): Promise<RawLink> {
    const hello = helloOf(name);
    const header = unsignedHello(hello).toString('base64url');
    const link = await RawLink.open(t, centre, { [helloHeader]: header });
    const challenge = await link.next();
    link.socket.send(encodeProof(key, hello, challenge, Buffer.alloc(0)));
    return link;
  }

  /** Returns the next message. Fails if the connection ends. */
  async next(): Promise<Buffer> {
    for (;;) {
      const message = this.#messages.shift();
      if (message !== undefined) return message;
      if (this.socket.readyState > WebSocket.OPEN) throw new Error('the connection ended');
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** Whether the centre welcomed the site. Chooses the connection. */
  async isWelcome(): Promise<boolean> {
    try {
      const isWelcome = (await this.next()).length === 0;
      if (isWelcome) this.socket.send(Buffer.alloc(0));
      return isWelcome;
    } catch {
      return false;
    }
  }

  /** Sends a request and returns the frame of its reply. */
  async ask(name: string, params: WireValue): Promise<Frame> {
    const id = this.#nextId;
    this.#nextId += 1;
    this.sendRequest(id, name, params);
    return decodeFrame(await this.next());
  }

  sendRequest(id: number, name: string, params: WireValue): void {
    this.socket.send(encodeFrame({ kind: 'request', id, name, params }));
  }
}

/** Returns an encoded hello without its signature. */
export function helloOf(site: string, changed: Partial<Hello> = {}): Buffer {
  return encodeHello({
    protocol: 1,
    version: '0.1.0',
    nonce: randomBytes(32),
    time: Date.now(),
    site,
    isBound: false,
    ...changed,
  });
}

/** Returns the parameters of a batch. */
export function batchOf(items: readonly SentItem[], log = 'A'.repeat(16)): WireMap {
  return { log, entries: encodeBatch(items) };
}

/** Returns an entry of a batch. */
export function entryOf(sequence: number, kind: string, value: WireMap, ms = Date.now()): SentItem {
  return { sequence, ms, count: 0, kind, value: packLocal(value) };
}
