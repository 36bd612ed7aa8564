/**
 * Connection of a site to its centre. Connects, sends heartbeats, and reconnects after a random
 * delay.
 */

import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import type { Readable } from 'node:stream';
import type { Logger } from 'pino';
import type { Static, TSchema } from 'typebox';
import type { SiteOptions } from '#config';
import { packLocal } from '#minion-protocol';
import { errorMessage, sleepUntilAborted } from '#runtime';
import { EdgeError } from '../errors.ts';
import { seal } from '../identity/sealed-box.ts';
import type { SiteIdentity } from '../identity/site-identity.ts';
import { type CentreEndpoint, endpointsOf, isSecure } from './centre-endpoint.ts';
import { type DialProgress, dial } from './dial.ts';
import { edgeAddress } from './edge-address.ts';
import { encodeFrame } from './frames.ts';
import { maxEarlyBytes } from './handshake.ts';
import {
  type EarlyRequest,
  type EarlySource,
  type LinkHandler,
  type LinkMessage,
  type LinkState,
  maxEarlyRequests,
  type PartRange,
  type SiteLink,
} from './link.ts';
import { LinkHandlers, LinkPeer } from './link-peer.ts';
import { OpenRequests } from './open-requests.ts';
import { readPart } from './read-part.ts';
import { RetryDelay } from './retry-delay.ts';
import { beWelcomed, type Greeting, greet, type TlsSessions } from './site-handshake.ts';
import { StallWatch } from './stall-watch.ts';

/** Interval at which the site checks that the connection transfers data, in milliseconds. */
const watchMs = 1000;

/**
 * Maximum time without a received byte while the site reads a part of a pack, in milliseconds.
 * After this time, the request for the part fails. If the connection itself is lost, the request
 * fails earlier.
 */
const partStallMs = 30_000;

/**
 * Maximum total size of early requests before encryption, in bytes. Early requests are sent with
 * the handshake. Packing and encryption add less than 128 bytes.
 */
const maxEarlyFrames = maxEarlyBytes - 128;

/**
 * Last message of the handshake. It is empty. A site may open several connections at the same time,
 * and sends this message only on the connection that it will use.
 */
const choice: Buffer = Buffer.alloc(0);

/**
 * Duration after which a connection counts as stable, in milliseconds. When a stable connection
 * ends, the delay before the next attempt starts at its minimum again.
 */
const stableMs = 30_000;

export interface SiteConnectionOptions {
  readonly options: Pick<SiteOptions, 'addresses' | 'behindProxy' | 'ca' | 'centre'>;
  /**
   * Reads the identity. Called before each attempt, because a site can join while its master runs.
   */
  readonly readIdentity: () => Promise<SiteIdentity | undefined>;
  /**
   * Function that is called after each handshake, with the time that the centre has signed, in
   * milliseconds since 1970.
   */
  readonly onCentreTime: (time: number) => Promise<void>;
  readonly now: () => number;
  readonly logger: Logger;
  readonly closing: AbortSignal;
  /** Random number from 0 to 1. Default: `Math.random`. */
  readonly random?: () => number;
}

export class SiteConnection implements SiteLink {
  readonly #options: SiteConnectionOptions;
  readonly #handlers = new LinkHandlers<void>('centre');
  readonly #listeners: ((state: LinkState) => void)[] = [];
  readonly #agents = {
    plain: new HttpAgent({ keepAlive: true, maxSockets: 2 }),
    secure: new HttpsAgent({ keepAlive: true, maxSockets: 2 }),
  };
  readonly #stopped = new AbortController();
  readonly #sessions = new LastSession();
  /**
   * Keys for early requests: those that the site sends before the handshake has ended. `sealKey`
   * encrypts them. `centreKey` is the online key of the centre that sent `sealKey`. `undefined`
   * until the site has connected once.
   */
  #sealKey: { readonly centreKey: Uint8Array; readonly sealKey: Uint8Array } | undefined;
  readonly #earlySources: EarlySource[] = [];
  readonly #openRequests = new OpenRequests();
  #peer: LinkPeer<void> | undefined;
  /**
   * Aborts the downloads of packs (compressed content of bundles) when the connection to the centre
   * is lost.
   */
  #parts = new AbortController();
  /** Number of requests in progress that read parts of packs. */
  #openParts = 0;
  /** Address of the centre in the last attempt to connect, with its TLS options. */
  #endpoint: CentreEndpoint | undefined;
  /** Number of attempts to connect. It determines which endpoint the next attempt uses. */
  #attempts = 0;
  #running: Promise<void> | undefined;
  #lastContactAt: number | undefined;
  #clockDifferenceMs: number | undefined;
  #problem: string | undefined;
  #wake = new AbortController();
  /** Whether the centre accepted the site in the last attempt. */
  #wasAccepted = false;

  constructor(options: SiteConnectionOptions) {
    this.#options = options;
  }

  get state(): LinkState {
    const peer = this.#peer;
    const last = peer === undefined ? undefined : this.#options.now() - peer.silentMs;
    return {
      isConnected: peer !== undefined,
      lastContactAt: last === undefined ? this.#lastContactAt : Math.round(last),
      clockDifferenceMs: this.#clockDifferenceMs,
    };
  }

  /** Address of the centre in the last attempt to connect. */
  get centre(): string {
    return this.#endpoint?.centre ?? this.#options.options.centre;
  }

  /** Reason why there is no connection, or `undefined`. */
  get problem(): string | undefined {
    return this.#peer === undefined ? this.#problem : undefined;
  }

  handle<P extends TSchema, R extends TSchema>(
    message: LinkMessage<P, R>,
    handler: LinkHandler<P, R, void>,
  ): void {
    this.#handlers.add(message, handler);
  }

  onChange(listener: (state: LinkState) => void): void {
    this.#listeners.push(listener);
  }

  sendEarly(source: EarlySource): void {
    if (this.#earlySources.push(source) <= maxEarlyRequests) return;
    throw new TypeError(
      `too many requests during the handshake: at most ${maxEarlyRequests} functions may be registered to send one`,
    );
  }

  async call<P extends TSchema, R extends TSchema>(
    message: LinkMessage<P, R>,
    params: Static<P>,
    signal?: AbortSignal,
  ): Promise<Static<R>> {
    if (this.#peer === undefined) throw notConnected();
    return this.#peer.call(message, params, signal);
  }

  async get(path: string, range: PartRange, signal?: AbortSignal): Promise<Readable> {
    const endpoint = this.#endpoint;
    if (endpoint === undefined || this.#peer === undefined) throw notConnected();
    const ended = this.#parts.signal;
    const stream = readPart({
      url: `${edgeAddress(endpoint.centre)}${path}`,
      agent: isSecure(endpoint) ? this.#agents.secure : this.#agents.plain,
      ca: endpoint.ca === undefined ? undefined : Buffer.from(endpoint.ca),
      range,
      stallMs: partStallMs,
      signal: signal === undefined ? ended : AbortSignal.any([signal, ended]),
    });
    this.#openParts += 1;
    stream.once('close', () => {
      this.#openParts -= 1;
    });
    return stream;
  }

  /** Opens the connection, and reopens it whenever it ends. */
  start(): void {
    this.#running ??= this.#run();
  }

  reconnect(): void {
    this.#peer?.end(1000, new EdgeError('ERR_SITE_LINK', 'the site opens the connection again'));
    this.#wake.abort();
  }

  async close(): Promise<void> {
    this.#stopped.abort();
    this.#peer?.end(1001, new EdgeError('ERR_SITE_LINK', 'the site is shutting down'));
    await this.#running;
    this.#agents.plain.destroy();
    this.#agents.secure.destroy();
  }

  async #run(): Promise<void> {
    const { closing, random = Math.random } = this.#options;
    const stopped = this.#stopped.signal;
    const delay = new RetryDelay();
    while (!stopped.aborted && !closing.aborted) {
      const begun = performance.now();
      this.#wasAccepted = false;
      let failure: unknown;
      try {
        await this.#connect();
        this.#problem = 'the connection ended';
      } catch (error) {
        failure = error;
        this.#note(error);
      }
      if (performance.now() - begun >= stableMs) delay.reset();
      else delay.fail(this.#wasAccepted, failure);
      this.#wake = new AbortController();
      await sleepUntilAborted(delay.maxMs * random(), stopped, closing, this.#wake.signal);
    }
  }

  /** Opens one connection. Resolves when it has ended. */
  async #connect(): Promise<void> {
    const { onCentreTime } = this.#options;
    const stopped = this.#stopped.signal;
    const { greeting, early } = await dial((signal, progress) => this.#attempt(signal, progress), {
      signal: stopped,
      onUnreached: (error) => this.#note(error),
    });
    const { socket, challenge, endpoint, centreKey } = greeting;
    const stop = (): void => socket.terminate();
    stopped.addEventListener('abort', stop, { once: true });
    try {
      this.#endpoint = endpoint;
      this.#clockDifferenceMs = greeting.clockDifferenceMs;
      this.#sealKey = { centreKey, sealKey: challenge.sealKey };
      await onCentreTime(challenge.time);
      // `close` itself ends a connection that is open.
      stopped.removeEventListener('abort', stop);
      if (stopped.aborted) return;
      const reason = await this.#open(greeting, early);
      if (reason.code !== 'ERR_SITE_LINK') throw reason;
    } finally {
      stopped.removeEventListener('abort', stop);
      stop();
    }
  }

  /**
   * Makes one attempt to connect to the next address of the centre. Resolves when the centre has
   * accepted the site.
   */
  async #attempt(signal: AbortSignal, progress: DialProgress): Promise<Welcomed> {
    const { options, now, readIdentity } = this.#options;
    const caller = await readIdentity();
    if (caller === undefined) {
      throw new EdgeError(
        'ERR_SITE_NOT_JOINED',
        'this site has not joined a centre; create a ticket there and run `saltbridge site join`',
      );
    }
    const endpoints = await endpointsOf(caller, options);
    const endpoint = endpoints[this.#attempts % endpoints.length];
    this.#attempts += 1;
    if (endpoint === undefined) throw notConnected();
    this.#endpoint = endpoint;
    let requests: readonly SentEarly[] = [];
    const early = async (): Promise<Uint8Array | undefined> => {
      const known = this.#sealKey;
      // A site does not know the key of its centre before it has connected once.
      if (known === undefined || Buffer.compare(known.centreKey, caller.centreKey) !== 0) return;
      requests = await this.#earlyRequests();
      const frames = requests.map(({ frame }) => frame);
      return frames.length === 0 ? undefined : seal(packLocal(frames), known.sealKey, caller.name);
    };
    const sessions = this.#sessions;
    const greeting = await greet({ endpoint, caller, now, signal, progress, sessions, early });
    await beWelcomed(greeting, signal);
    return { greeting: { ...greeting, centreKey: caller.centreKey }, early: requests };
  }

  async #earlyRequests(): Promise<readonly SentEarly[]> {
    const requests: SentEarly[] = [];
    let left = maxEarlyFrames;
    for (const [id, source] of this.#earlySources.entries()) {
      const request = await source(left);
      if (request === undefined) continue;
      const { name, params } = request;
      const frame = encodeFrame({ kind: 'request', id, name, params });
      if (frame.length > left) continue;
      left -= frame.length;
      requests.push({ id, request, frame });
    }
    return requests;
  }

  /** Stores the reason why there is no connection, and logs it once. */
  #note(error: unknown): void {
    const problem = errorMessage(error);
    const isNew = problem !== this.#problem;
    this.#problem = problem;
    if (isNew) this.#options.logger.warn({ err: error }, 'cannot connect to the centre; retrying');
  }

  /**
   * Notifies the centre that the site uses this connection, and handles its messages until it ends.
   * The centre must have accepted the site.
   * @returns the reason why the connection ended
   */
  #open(
    { socket, raw, messages, challenge, endpoint, roundTripMs }: Greeting,
    early: readonly SentEarly[],
  ): Promise<EdgeError> {
    const { logger, now } = this.#options;
    return new Promise((resolve) => {
      const watch = new StallWatch(roundTripMs);
      const heartbeat = setInterval(() => {
        const isWaiting = peer.isWaiting || this.#openParts > 0;
        const action = watch.check(performance.now(), raw, isWaiting);
        if (action === 'ping') peer.ping();
        if (action !== 'end') return;
        peer.end(1001, new EdgeError('ERR_SITE_LINK', 'the centre did not answer a heartbeat'));
      }, watchMs).unref();
      const peer: LinkPeer<void> = new LinkPeer<void>({
        socket,
        handlers: this.#handlers,
        from: undefined,
        open: (bytes) => this.#openRequests.open('centre', bytes),
        onEnd: (reason) => {
          clearInterval(heartbeat);
          this.#lastContactAt = Math.round(now() - peer.silentMs);
          this.#peer = undefined;
          this.#parts.abort();
          logger.info({ reason: reason.message }, 'the connection to the centre has ended');
          this.#tell();
          resolve(reason);
        },
        onUnexpected: (error, name) =>
          logger.error(
            { err: error, name },
            'internal error while handling a request of the centre',
          ),
      });
      const received = messages.stop();
      if (socket.readyState !== socket.OPEN) {
        peer.end(1001, new EdgeError('ERR_SITE_LINK', 'the connection ended'));
        return;
      }
      // The requests of the listeners share a packet with the choice.
      raw.cork();
      setImmediate(() => raw.uncork());
      socket.send(choice);
      this.#peer = peer;
      this.#parts = new AbortController();
      this.#wasAccepted = true;
      for (const { id, request } of early) {
        request.onUsed((message) => peer.early(id, message));
      }
      for (const message of received) peer.accept(message);
      logger.info({ centre: endpoint.centre, version: challenge.version }, 'centre connected');
      this.#tell();
    });
  }

  #tell(): void {
    for (const listener of this.#listeners) listener(this.state);
  }
}

/**
 * Connection over which the centre has accepted the site, and the requests that the site sent with
 * the first message of the handshake.
 */
interface Welcomed {
  readonly greeting: Greeting & { readonly centreKey: Uint8Array };
  readonly early: readonly SentEarly[];
}

/**
 * Early request, which was sent together with the first message of the handshake (hello), and its
 * encoded frame.
 */
interface SentEarly {
  readonly id: number;
  readonly request: EarlyRequest;
  readonly frame: Uint8Array;
}

/** Keeps the TLS session of the last connection, so that the next connection can resume it. */
class LastSession implements TlsSessions {
  #last: { readonly centre: string; readonly session: Buffer } | undefined;

  find(centre: string): Buffer | undefined {
    return this.#last?.centre === centre ? this.#last.session : undefined;
  }

  store(centre: string, session: Buffer): void {
    this.#last = { centre, session };
  }
}

function notConnected(): EdgeError {
  return new EdgeError('ERR_SITE_LINK', 'the site is not connected to its centre; retry later');
}
