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
import { unpackLocal } from '#minion-protocol';
import { addressOwner, Budget, RepeatedWarnings, TokenBuckets } from '#runtime';
import { EdgeError } from '../errors.ts';
import { deriveSealKey, sealKeyOf, unseal } from '../identity/sealed-box.ts';
import type { SiteConnection, SiteRegistry } from '../identity/site-registry.ts';
import type { SiteContact } from '../identity/site-rows.ts';
import { edgeLimits } from '../limits.ts';
import { bindingOf } from './binding.ts';
import { decodeFrame, encodeFrame, maxFrameBytes } from './frames.ts';
import {
  encodeChallenge,
  helloHeader,
  maxEarlyBytes,
  maxHelloBytes,
  nonceBytes,
  proofOfHello,
  protocolVersion,
  readHello,
  readProof,
  type SignedHello,
} from './handshake.ts';
import { HandshakeMessages } from './handshake-messages.ts';
import {
  type CentreLinks,
  type LinkCaller,
  type LinkHandler,
  type LinkMessage,
  maxEarlyRequests,
  type SiteSender,
} from './link.ts';
import {
  answerRequest,
  closeCodes,
  LinkHandlers,
  LinkPeer,
  type RequestFrame,
} from './link-peer.ts';
import type { MemberConnections } from './member-connections.ts';
import { OpenRequests } from './open-requests.ts';

/** Message with which the centre accepts a site. It is empty. */
const welcome: Buffer = Buffer.alloc(0);

/** Maximum duration of a handshake, in milliseconds. Slow links need several seconds for a step. */
const handshakeMs = 60_000;

/**
 * Limits for decoding the early requests. A site sends early requests together with its first
 * message of the handshake (hello).
 */
const earlyLimits = { maxBytes: maxEarlyBytes, maxDepth: 2, maxElements: maxEarlyRequests + 1 };

/**
 * Maximum number of WebSocket fragments of a message. A site sends each message in one frame, but a
 * proxy may divide it.
 */
const maxFragments = 16;

/** Maximum number of parts of a fragment that wait for the rest of it, as the network divides it. */
const maxBufferedChunks = 1024;

/** Time without a message after which the centre ends a connection, in milliseconds. */
const silentMs = 150_000;
const sweepMs = 30_000;

/**
 * Interval at which the centre stores the time of the last contact with each connected site, in
 * milliseconds. Other members of the cluster read these times, and so does this member after a
 * restart.
 */
const noteMs = 300_000;

export interface CentreLinksOptions {
  readonly key: KeyObject;
  readonly sites: SiteRegistry;
  /** For each site, the member of the cluster to which it is connected. */
  readonly members: MemberConnections;
  readonly now: () => number;
  readonly logger: Logger;
}

/** Returns whether this public key verifies the signature of the site in the handshake. */
type Prove = (key: Uint8Array) => boolean;

interface Connection extends SiteConnection {
  /** Version, address and clock of the site when it opened this connection. */
  readonly contact: SiteContact;
  readonly peer: LinkPeer<SiteSender>;
  readonly prove: Prove;
}

/**
 * Connection that its site has not chosen yet. The centre has accepted it, or is about to. A site
 * may open several connections, and then chooses one of them.
 */
interface Candidate {
  readonly socket: WebSocket;
  readonly prove: Prove;
}

/** Place of an unfinished handshake. */
interface Place {
  /** Site that the hello names, if the place is one of `edge.knownHandshakes`. */
  readonly site?: string;
  release(): void;
}

export class CentreConnections implements CentreLinks {
  readonly #options: CentreLinksOptions;
  readonly #handlers = new LinkHandlers<SiteSender>('site');
  readonly #connections = new Map<string, Connection>();
  /** Open requests of each site, also those of connections that have ended or were not chosen. */
  readonly #openRequests = new OpenRequests();
  readonly #listeners: ((site: string, caller: LinkCaller) => void)[] = [];
  readonly #endListeners: ((site: string) => void)[] = [];
  readonly #server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: maxFrameBytes,
    skipUTF8Validation: true,
    // Each fragment and each part of a fragment takes memory in addition to its bytes.
    maxFragments,
    maxBufferedChunks,
    autoPong: false,
  });
  readonly #handshakes = new Budget(edgeLimits.openHandshakes);
  readonly #knownHandshakes = new Budget(edgeLimits.knownHandshakes);
  readonly #refusedKnown = new TokenBuckets(edgeLimits.refusedKnownHandshakes);
  readonly #refused: TokenBuckets;
  readonly #accepted: TokenBuckets;
  readonly #warnings: RepeatedWarnings;
  readonly #inHandshake = new Set<WebSocket>();
  /**
   * Connections of sites that have not yet chosen which of their connections to use, by the name of
   * the site. A connection is added before the key of its site is checked. Therefore it ends if the
   * site is revoked during or after the check.
   */
  readonly #candidates = new Map<string, Set<Candidate>>();
  readonly #sealKey: KeyObject;
  readonly #sweeper: NodeJS.Timeout;
  readonly #noter: NodeJS.Timeout;
  #isClosed = false;

  constructor(options: CentreLinksOptions) {
    this.#options = options;
    this.#sealKey = deriveSealKey(options.key);
    this.#refused = new TokenBuckets(edgeLimits.refusedHandshakes);
    this.#accepted = new TokenBuckets(edgeLimits.acceptedHandshakes, options.now);
    this.#warnings = new RepeatedWarnings(options.logger, options.now);
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
    handler: LinkHandler<P, R, SiteSender>,
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

  /**
   * Ends the connections of a site if the registry does not permit the key of the site any more.
   */
  endUnless(site: string): void {
    const { sites } = this.#options;
    for (const { socket, prove } of this.#candidates.get(site) ?? []) {
      sites.authenticate(site, prove).catch(() => socket.terminate());
    }
    const connection = this.#connections.get(site);
    if (connection === undefined) return;
    sites.authenticate(site, connection.prove).catch(() => {
      if (this.#connections.get(site) === connection) this.end(site);
    });
  }

  /** Ends the connections of a site, because its key is not valid any more. */
  end(site: string): void {
    const text = 'the key of the site was revoked or replaced';
    for (const { socket } of this.#candidates.get(site) ?? []) socket.terminate();
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
    const place = this.#placeFor(request, address);
    if (typeof place === 'string') {
      rejectUpgrade(socket, place);
      return;
    }
    let isHeld = true;
    const release = (): void => {
      if (isHeld) place.release();
      isHeld = false;
    };
    socket.once('close', release);
    // The first messages share a packet with the response. On a bad link, one packet is lost less
    // often than three.
    socket.cork();
    this.#server.handleUpgrade(request, socket, head, (connection) => {
      this.#handshake(connection, request).then(release, (error: unknown) => {
        release();
        if (!(error instanceof EdgeError)) {
          this.#options.logger.error(
            { err: error },
            'internal error during the handshake with a site',
          );
        } else if (error.code !== 'ERR_SITE_LINK') {
          // Log only as many rejected connections of an address as its limit permits.
          if (this.isPermitted(address)) {
            this.#options.logger.warn({ address, err: error }, 'rejected the connection of a site');
          }
          if (place.site === undefined) this.noteRefused(address);
          else this.#refusedKnown.take(place.site);
        }
        const isRefused = error instanceof EdgeError && error.code === 'ERR_SITE_REFUSED';
        connection.close(isRefused ? closeCodes.refused : closeCodes.malformed);
        setTimeout(() => connection.terminate(), 1000).unref();
      });
    });
  }

  /**
   * Takes a place for a handshake, or returns the HTTP status with which the centre refuses the
   * connection. If an address exceeds its limits, sites that were last admitted from it still get
   * places, because strangers can have the same address behind a proxy or NAT.
   */
  #placeFor(request: IncomingMessage, address: string): Place | string {
    if (this.#isClosed) return '503 Service Unavailable';
    const owner = addressOwner(address);
    const isPermitted = this.isPermitted(address);
    if (isPermitted && this.#handshakes.tryTake(owner)) {
      return { release: () => this.#handshakes.release(owner) };
    }
    const site = this.#knownSiteOf(request, owner);
    if (site !== undefined && this.#knownHandshakes.tryTake(site)) {
      return { site, release: () => this.#knownHandshakes.release(site) };
    }
    return isPermitted ? '503 Service Unavailable' : '429 Too Many Requests';
  }

  /**
   * Returns the site that the hello of a request names, if the site was last admitted from this
   * address. The name is not authenticated yet. Without a signature, a stranger can use up the
   * limit of the site. A signed hello has no such limit, because it is verified at once.
   */
  #knownSiteOf(request: IncomingMessage, owner: string): string | undefined {
    const given = helloOf(request);
    const signed = given && readHelloIfValid(given);
    if (signed === undefined) return undefined;
    const { site } = signed.hello;
    if (!this.#options.sites.isLastAddress(site, owner)) return undefined;
    return signed.signature !== undefined || this.#refusedKnown.has(site) ? site : undefined;
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
    const { socket } = request;
    const messages = new HandshakeMessages(connection, {
      maxBytes: maxHelloBytes,
      maxAdvance: 1,
    });
    this.#inHandshake.add(connection);
    const timer = setTimeout(() => connection.terminate(), handshakeMs);
    try {
      const given = helloOf(request);
      if (given === undefined) socket.uncork();
      const signed = readHello(given ?? (await messages.next()));
      const { hello, body } = signed;
      const binding = hello.isBound ? bindingOf(request.socket) : Buffer.alloc(0);
      const challenge = encodeChallenge(
        key,
        body,
        {
          protocol: protocolVersion,
          version,
          nonce: randomBytes(nonceBytes),
          time: now(),
          sealKey: sealKeyOf(this.#sealKey),
        },
        binding,
      );
      const contact = {
        at: now(),
        version: hello.version,
        address: request.socket.remoteAddress ?? '',
        clockDifferenceMs: hello.time - now(),
      };
      connection.send(challenge);
      if (!hello.isBound) socket.uncork();
      const prove = hello.isBound
        ? proofOfHello(signed, binding)
        : readProof(body, challenge, await messages.next(), binding);
      const candidate = { socket: connection, prove };
      await this.#asCandidate(hello.site, candidate, async () => {
        await sites.authenticate(hello.site, prove);
        if (!this.#accepted.tryTake(hello.site)) {
          const problem = 'the site connects too often; retry later';
          this.#warnings.warn(
            `busy ${hello.site}`,
            { site: hello.site },
            'refused a connection of a site, because the site connects too often',
          );
          connection.close(closeCodes.busy, problem);
          throw new EdgeError('ERR_SITE_LINK', problem);
        }
        await sites.noteContacts(new Map([[hello.site, contact]]));
        if (this.#isClosed || connection.readyState !== connection.OPEN) return;
        connection.send(welcome);
        this.#answerEarly(connection, hello);
        setImmediate(() => socket.uncork());
        await this.#awaitChoice(hello.site, candidate, messages, contact);
      });
    } finally {
      clearTimeout(timer);
      socket.uncork();
      this.#inHandshake.delete(connection);
    }
  }

  /**
   * Waits until the site chooses this connection. On a slow link, a site opens several connections,
   * and chooses the first that the centre has accepted.
   */
  async #awaitChoice(
    site: string,
    candidate: Candidate,
    messages: HandshakeMessages,
    contact: SiteContact,
  ): Promise<void> {
    await messages.last((choice) => {
      if (choice.length > 0) {
        throw new EdgeError(
          'ERR_SITE_MESSAGE',
          'the last message of the handshake must be empty, but the site sent data in it',
        );
      }
      this.#open(site, candidate, contact);
    });
  }

  /** Adds a connection to `#candidates` while `work` runs. */
  async #asCandidate(site: string, candidate: Candidate, work: () => Promise<void>): Promise<void> {
    const candidates = this.#candidates.get(site) ?? new Set();
    this.#candidates.set(site, candidates.add(candidate));
    try {
      await work();
    } finally {
      candidates.delete(candidate);
      if (candidates.size === 0 && this.#candidates.get(site) === candidates) {
        this.#candidates.delete(site);
      }
    }
  }

  /**
   * Answers the requests that an accepted site has sent together with its first message (hello).
   */
  #answerEarly(socket: WebSocket, { early, site }: SignedHello['hello']): void {
    if (early === undefined) return;
    const requests = openEarly(early, this.#sealKey, site);
    for (const request of requests) void this.#answer(socket, site, request);
    if (requests.length > 0) return;
    // The requests are damaged or sealed to another key. The site then sends them again.
    for (let id = 0; id < maxEarlyRequests; id += 1) socket.send(refusedEarly(id));
  }

  async #answer(socket: WebSocket, site: string, { request, bytes }: EarlyFrame): Promise<void> {
    const handled = this.#handlers.find(request.name);
    const close = this.#openRequests.open(site, bytes);
    const from: SiteSender = { site, isEarly: true };
    const onUnexpected = (err: unknown, name: string): void =>
      this.#options.logger.error({ err, site, name }, 'the request of a site failed');
    const reply =
      handled?.isEarly === true && close !== undefined
        ? await answerRequest(request, bytes, handled, from, onUnexpected)
        : refusedEarly(request.id);
    close?.();
    if (socket.readyState === socket.OPEN) socket.send(reply);
  }

  #open(site: string, { socket, prove }: Candidate, contact: SiteContact): void {
    const { logger, members, now } = this.#options;
    this.#connections.get(site)?.peer.end(closeCodes.replaced, replaced());
    const peer: LinkPeer<SiteSender> = new LinkPeer({
      socket,
      handlers: this.#handlers,
      from: { site, isEarly: false },
      open: (bytes) => this.#openRequests.open(site, bytes),
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
    if (socket.readyState !== socket.OPEN) return;
    this.#connections.set(site, connection);
    this.#noteMember(members.noteOpened(site));
    logger.info({ site }, 'site connected');
    for (const listener of this.#listeners) listener(site, peer);
  }

  /**
   * Stores the time of the last contact over each of these connections.
   * @param connections - pairs of the name of a site and its connection
   */
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
      this.#options.logger.warn(
        { err: error },
        'cannot store the name of the cluster member to which a site is connected',
      );
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

/**
 * Returns the first message of the handshake if the upgrade request contains it, otherwise
 * `undefined`.
 */
function helloOf({ headers }: IncomingMessage): Buffer | undefined {
  const value = headers[helloHeader];
  if (typeof value !== 'string' || value.length > 2 * maxHelloBytes) return undefined;
  return Buffer.from(value, 'base64url');
}

/** Early request, and the size of its frame in bytes. */
interface EarlyFrame {
  readonly request: RequestFrame;
  readonly bytes: number;
}

/** Decodes the first message of the handshake, or returns `undefined` if it is malformed. */
function readHelloIfValid(bytes: Uint8Array): SignedHello | undefined {
  try {
    return readHello(bytes);
  } catch {
    return undefined;
  }
}

/**
 * Decrypts and decodes the requests that a site has sent in the first message of the handshake.
 * Returns an empty list if they are damaged or sealed to another key.
 */
function openEarly(box: Uint8Array, key: KeyObject, site: string): readonly EarlyFrame[] {
  try {
    const frames = unpackLocal(unseal(box, key, site), earlyLimits);
    if (!Array.isArray(frames)) return [];
    return frames.flatMap((packed) => {
      if (!(packed instanceof Uint8Array)) return [];
      const request = decodeFrame(packed);
      const isEarly = request.kind === 'request' && request.id < maxEarlyRequests;
      return isEarly ? [{ request, bytes: packed.length }] : [];
    });
  } catch {
    return [];
  }
}

function refusedEarly(id: number): Buffer {
  const message = 'the early request was not accepted; repeat it';
  return encodeFrame({ kind: 'failure', id, code: 'ERR_SITE_LINK', message });
}

function rejectUpgrade(socket: Duplex, status: string): void {
  const head = `HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n`;
  socket.end(`${head}Retry-After: 5\r\n\r\n`, () => socket.destroy());
}
