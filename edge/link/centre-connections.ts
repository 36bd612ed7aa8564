/**
 * Connections of sites to the centre. Accepts sites after a handshake, and sends and receives
 * requests.
 */

import { type KeyObject, randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Logger } from 'pino';
import type { TSchema } from 'typebox';
import { type WebSocket, WebSocketServer } from 'ws';
import { version } from '#master';
import { addressOwner, Budget, TokenBuckets } from '#runtime';
import { EdgeError } from '../errors.ts';
import type { SiteConnection, SiteRegistry } from '../identity/site-registry.ts';
import type { SiteContact } from '../identity/site-rows.ts';
import { edgeLimits } from '../limits.ts';
import { bindingOf } from './binding.ts';
import { maxFrameBytes } from './frames.ts';
import {
  encodeChallenge,
  helloHeader,
  maxHandshakeBytes,
  nonceBytes,
  protocolVersion,
  readHello,
  readProof,
} from './handshake.ts';
import { HandshakeMessages } from './handshake-messages.ts';
import type { CentreLinks, LinkCaller, LinkHandler, LinkMessage } from './link.ts';
import { closeCodes, LinkHandlers, LinkPeer } from './link-peer.ts';
import type { MemberConnections } from './member-connections.ts';

/** Last message of the handshake. It is empty. */
const welcome: Buffer = Buffer.alloc(0);

/** Maximum duration of a handshake, in milliseconds. Slow links need several seconds for a step. */
const handshakeMs = 60_000;

/** Maximum time without a message, in milliseconds. The centre then ends the connection. */
const silentMs = 150_000;
const sweepMs = 30_000;

/**
 * Interval at which the last contact of connected sites is stored, in milliseconds. Other members
 * of the cluster and the next start of this process read it.
 */
const noteMs = 300_000;

export interface CentreLinksOptions {
  readonly key: KeyObject;
  readonly sites: SiteRegistry;
  /** Connections of all members of the cluster. */
  readonly members: MemberConnections;
  readonly now: () => number;
  readonly logger: Logger;
}

interface Connection extends SiteConnection {
  /** First contact of this connection. */
  readonly contact: SiteContact;
  readonly peer: LinkPeer<From>;
  /** Whether the site's signature of the handshake matches a public key. */
  readonly prove: (key: Uint8Array) => boolean;
}

interface From {
  readonly site: string;
}

export class CentreConnections implements CentreLinks {
  readonly #options: CentreLinksOptions;
  readonly #handlers = new LinkHandlers<From>('site');
  readonly #connections = new Map<string, Connection>();
  readonly #listeners: ((site: string, caller: LinkCaller) => void)[] = [];
  readonly #endListeners: ((site: string) => void)[] = [];
  readonly #server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: maxFrameBytes,
    skipUTF8Validation: true,
    autoPong: false,
  });
  readonly #handshakes = new Budget(edgeLimits.openHandshakes);
  readonly #refused: TokenBuckets;
  readonly #inHandshake = new Set<WebSocket>();
  readonly #sweeper: NodeJS.Timeout;
  readonly #noter: NodeJS.Timeout;
  #isClosed = false;

  constructor(options: CentreLinksOptions) {
    this.#options = options;
    this.#refused = new TokenBuckets(edgeLimits.refusedHandshakes);
    this.#sweeper = setInterval(() => this.#sweep(), sweepMs).unref();
    this.#noter = setInterval(() => this.#noteContacts(this.#connections), noteMs).unref();
    options.sites.complete({
      connectionOf: (name) => this.#connections.get(name),
      memberOf: (name) => options.members.memberOf(name),
    });
    options.sites.onRevoked((name) => this.end(name));
    options.members.onMoved((name) =>
      this.#connections.get(name)?.peer.end(closeCodes.replaced, replaced()),
    );
  }

  /** Number of sites that are connected to this process. */
  get size(): number {
    return this.#connections.size;
  }

  handle<P extends TSchema, R extends TSchema>(
    message: LinkMessage<P, R>,
    handler: LinkHandler<P, R, From>,
  ): void {
    this.#handlers.add(message, handler);
  }

  callerOf(site: string): LinkCaller | undefined {
    return this.#connections.get(site)?.peer;
  }

  isConnected(site: string): boolean {
    return this.#connections.has(site) || this.#options.members.memberOf(site) !== undefined;
  }

  onConnected(listener: (site: string, caller: LinkCaller) => void): void {
    this.#listeners.push(listener);
  }

  onEnded(listener: (site: string) => void): void {
    this.#endListeners.push(listener);
  }

  /** Ends the connection of a site if the registry does not permit the key of the connection. */
  endUnless(site: string): void {
    const connection = this.#connections.get(site);
    if (connection === undefined) return;
    this.#options.sites.authenticate(site, connection.prove).catch(() => {
      if (this.#connections.get(site) === connection) this.end(site);
    });
  }

  /** Ends the connection of a site, because its key is not valid any more. */
  end(site: string): void {
    const text = 'the key of the site was revoked or replaced';
    this.#connections
      .get(site)
      ?.peer.end(closeCodes.refused, new EdgeError('ERR_SITE_REFUSED', text));
  }

  /** Whether a client address may try to connect or to join. */
  isPermitted(address: string): boolean {
    return this.#refused.has(addressOwner(address));
  }

  /** Counts a rejected connection or ticket of a client address. */
  noteRefused(address: string): void {
    this.#refused.take(addressOwner(address));
  }

  /** Handles the WebSocket upgrade request of a site. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const address = request.socket.remoteAddress ?? '';
    const owner = addressOwner(address);
    const status = this.#refusalOf(address);
    if (status !== undefined) {
      rejectUpgrade(socket, status);
      return;
    }
    let isHeld = true;
    const release = (): void => {
      if (isHeld) this.#handshakes.release(owner);
      isHeld = false;
    };
    socket.once('close', release);
    this.#server.handleUpgrade(request, socket, head, (connection) => {
      this.#handshake(connection, request).then(release, (error: unknown) => {
        release();
        if (!(error instanceof EdgeError)) {
          this.#options.logger.error(
            { err: error },
            'internal error during the handshake with a site',
          );
        } else if (error.code !== 'ERR_SITE_LINK') {
          this.noteRefused(address);
          this.#options.logger.warn({ address, err: error }, 'rejected the connection of a site');
        }
        const isRefused = error instanceof EdgeError && error.code === 'ERR_SITE_REFUSED';
        connection.close(isRefused ? closeCodes.refused : closeCodes.malformed);
        setTimeout(() => connection.terminate(), 1000).unref();
      });
    });
  }

  /**
   * Reserves one of the permitted handshakes. Returns the HTTP status of the refusal if this is not
   * possible.
   */
  #refusalOf(address: string): string | undefined {
    if (this.#isClosed) return '503 Service Unavailable';
    if (!this.isPermitted(address)) return '429 Too Many Requests';
    const isFree = this.#handshakes.tryTake(addressOwner(address));
    return isFree ? undefined : '503 Service Unavailable';
  }

  /** Ends all connections. */
  close(): void {
    this.#isClosed = true;
    clearInterval(this.#sweeper);
    clearInterval(this.#noter);
    for (const connection of this.#inHandshake) connection.terminate();
    const ended = new EdgeError('ERR_SITE_LINK', 'the centre is shutting down');
    for (const { peer } of [...this.#connections.values()]) peer.end(1001, ended);
  }

  async #handshake(connection: WebSocket, request: IncomingMessage): Promise<void> {
    const { key, sites, now } = this.#options;
    const messages = new HandshakeMessages(connection);
    this.#inHandshake.add(connection);
    const timer = setTimeout(() => connection.terminate(), handshakeMs);
    try {
      const helloBytes = helloOf(request) ?? (await messages.next());
      const hello = readHello(helloBytes);
      const binding = hello.isBound ? bindingOf(request.socket) : Buffer.alloc(0);
      const clockDifferenceMs = hello.time - now();
      const challenge = encodeChallenge(
        key,
        helloBytes,
        { protocol: protocolVersion, version, nonce: randomBytes(nonceBytes), time: now() },
        binding,
      );
      connection.send(challenge);
      const proof = readProof(helloBytes, challenge, await messages.last(), binding);
      await sites.authenticate(hello.site, proof);
      const contact = {
        at: now(),
        version: hello.version,
        address: request.socket.remoteAddress ?? '',
        clockDifferenceMs,
      };
      await sites.noteContacts(new Map([[hello.site, contact]]));
      const early = messages.stop();
      if (messages.isEnded || this.#isClosed) return;
      const peer = this.#open(hello.site, connection, contact, proof);
      for (const message of early) peer?.accept(message);
    } finally {
      clearTimeout(timer);
      this.#inHandshake.delete(connection);
    }
  }

  #open(
    site: string,
    socket: WebSocket,
    contact: SiteContact,
    prove: Connection['prove'],
  ): LinkPeer<From> | undefined {
    const { logger, members, now } = this.#options;
    this.#connections.get(site)?.peer.end(closeCodes.replaced, replaced());
    const peer: LinkPeer<From> = new LinkPeer({
      socket,
      handlers: this.#handlers,
      from: { site },
      onEnd: (reason) => {
        if (this.#connections.get(site)?.peer === peer) {
          this.#connections.delete(site);
          for (const listener of this.#endListeners) listener(site);
          this.#noteContacts([[site, connection]]);
          this.#noteMember(members.noteEnded(site));
        }
        logger.info({ site, reason: reason.message }, 'the connection of a site has ended');
      },
      onUnexpected: (error, name) =>
        logger.error(
          { err: error, site, name },
          'internal error while handling a request of a site',
        ),
    });
    const connection: Connection = {
      peer,
      prove,
      contact,
      get lastContactAt() {
        return Math.round(now() - peer.silentMs);
      },
    };
    if (socket.readyState !== socket.OPEN) return undefined;
    this.#connections.set(site, connection);
    socket.send(welcome);
    this.#noteMember(members.noteOpened(site));
    logger.info({ site }, 'site connected');
    for (const listener of this.#listeners) listener(site, peer);
    return peer;
  }

  /** Stores the last contact of connections, by the name of the site. */
  #noteContacts(connections: Iterable<readonly [string, Connection]>): void {
    const noted = new Map<string, SiteContact>();
    for (const [site, { contact, lastContactAt }] of connections) {
      noted.set(site, { ...contact, at: lastContactAt });
    }
    this.#options.sites.noteContacts(noted).catch((error: unknown) => {
      this.#options.logger.warn(
        { err: error },
        'cannot store the times of the last contact with sites',
      );
    });
  }

  #noteMember(noted: Promise<void>): void {
    noted.catch((error: unknown) => {
      this.#options.logger.warn({ err: error }, 'cannot store to which member a site is connected');
    });
  }

  #sweep(): void {
    for (const { peer } of [...this.#connections.values()]) {
      if (peer.silentMs <= silentMs) continue;
      peer.end(1001, new EdgeError('ERR_SITE_LINK', 'no message or heartbeat arrived in time'));
    }
  }
}

function replaced(): EdgeError {
  return new EdgeError('ERR_SITE_LINK', 'the site has opened another connection');
}

/** Returns the first message of the handshake, if the upgrade request contains it. */
function helloOf({ headers }: IncomingMessage): Buffer | undefined {
  const value = headers[helloHeader];
  if (typeof value !== 'string' || value.length > 2 * maxHandshakeBytes) return undefined;
  return Buffer.from(value, 'base64url');
}

function rejectUpgrade(socket: Duplex, status: string): void {
  const head = `HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n`;
  socket.end(`${head}Retry-After: 5\r\n\r\n`, () => socket.destroy());
}
