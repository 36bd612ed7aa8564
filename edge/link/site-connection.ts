/**
 * Connection of a site to its centre. Connects, sends heartbeats, and reconnects after a random
 * delay.
 */

import { Agent as HttpAgent, get as httpGet, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, get as httpsGet } from 'node:https';
import { type Readable, Transform } from 'node:stream';
import type { Logger } from 'pino';
import type { Static, TSchema } from 'typebox';
import type { SiteOptions } from '#config';
import { version } from '#master';
import { errorMessage, sleepUntilAborted } from '#runtime';
import { EdgeError } from '../errors.ts';
import type { SiteIdentity } from '../identity/site-identity.ts';
import { type CentreEndpoint, endpointsOf, isSecure } from './centre-endpoint.ts';
import { type DialProgress, dial } from './dial.ts';
import { edgeAddress } from './edge-address.ts';
import type { LinkHandler, LinkMessage, LinkState, SiteLink } from './link.ts';
import { LinkHandlers, LinkPeer } from './link-peer.ts';
import { RetryDelay } from './retry-delay.ts';
import { connectMs, type Greeting, greet } from './site-handshake.ts';
import { type LinkTraffic, StallWatch } from './stall-watch.ts';

/** Interval at which the site checks that the connection transfers data, in milliseconds. */
const watchMs = 1000;

/** Duration after which a connection counts as stable, in milliseconds. */
const stableMs = 30_000;

export interface SiteConnectionOptions {
  readonly options: Pick<SiteOptions, 'addresses' | 'behindProxy' | 'ca' | 'centre'>;
  /**
   * Reads the identity. Called before each attempt, because a site can join while its master runs.
   */
  readonly readIdentity: () => Promise<SiteIdentity | undefined>;
  /**
   * Function that is called with each time that the centre has signed, in milliseconds since 1970.
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
  readonly #openingListeners: (() => void)[] = [];
  #peer: LinkPeer<void> | undefined;
  /** Connection that the centre has not accepted yet. The site sends alarms over it. */
  #opening: LinkPeer<void> | undefined;
  /** Endpoint of the last attempt. */
  #endpoint: CentreEndpoint | undefined;
  /** Number of attempts. It selects the next endpoint. */
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

  get isOpening(): boolean {
    return this.#opening !== undefined;
  }

  onOpening(listener: () => void): void {
    this.#openingListeners.push(listener);
  }

  async call<P extends TSchema, R extends TSchema>(
    message: LinkMessage<P, R>,
    params: Static<P>,
    signal?: AbortSignal,
  ): Promise<Static<R>> {
    const peer = this.#peer ?? (message.class === 'alarm' ? this.#opening : undefined);
    if (peer === undefined) throw notConnected();
    return peer.call(message, params, signal);
  }

  async get(path: string, maxBytes: number, signal?: AbortSignal): Promise<Readable> {
    const endpoint = this.#endpoint;
    if (endpoint === undefined) throw notConnected();
    const url = `${edgeAddress(endpoint.centre)}${path}`;
    const ca = endpoint.ca === undefined ? undefined : Buffer.from(endpoint.ca);
    const settings = {
      agent: isSecure(endpoint) ? this.#agents.secure : this.#agents.plain,
      headers: { 'user-agent': `saltbridge/${version}` },
      ...(ca === undefined ? {} : { ca }),
      ...(signal === undefined ? {} : { signal }),
    };
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const send = isSecure(endpoint) ? httpsGet : httpGet;
      const request = send(url, settings, resolve);
      request.setTimeout(connectMs, () =>
        request.destroy(new Error(`the centre sent no data for ${connectMs / 1000} s`)),
      );
      request.on('error', (cause) => reject(lostRequest(path, cause)));
    });
    if (response.statusCode !== 200) {
      response.resume();
      throw lostRequest(
        path,
        new Error(`the centre replied with the HTTP status ${response.statusCode}`),
      );
    }
    return boundedBody(response, path, maxBytes);
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
    const { logger, onCentreTime } = this.#options;
    const greeting = await dial((signal, progress) => this.#greet(signal, progress), {
      signal: this.#stopped.signal,
      onUnreached: (error) => this.#note(error),
    });
    const { socket, challenge, endpoint } = greeting;
    this.#endpoint = endpoint;
    // `close` itself ends a connection that the centre has accepted.
    const stop = (): void => {
      if (this.#peer === undefined) socket.terminate();
    };
    const time = setTimeout(stop, connectMs);
    this.#stopped.signal.addEventListener('abort', stop, { once: true });
    try {
      this.#clockDifferenceMs = greeting.clockDifferenceMs;
      await onCentreTime(challenge.time);
      const ended = this.#open(greeting, () => {
        clearTimeout(time);
        logger.info({ centre: endpoint.centre, version: challenge.version }, 'centre connected');
      });
      const reason = await ended;
      if (reason.code !== 'ERR_SITE_LINK') throw reason;
    } finally {
      clearTimeout(time);
      this.#stopped.signal.removeEventListener('abort', stop);
      socket.terminate();
    }
  }

  /** Makes an attempt to connect to the next address of the centre. */
  async #greet(signal: AbortSignal, progress: DialProgress): Promise<Greeting> {
    const { options, now, readIdentity } = this.#options;
    const identity = await readIdentity();
    if (identity === undefined) {
      throw new EdgeError(
        'ERR_SITE_NOT_JOINED',
        'this site has not joined a centre; create a ticket there and run `saltbridge site join`',
      );
    }
    const endpoints = await endpointsOf(identity, options);
    const endpoint = endpoints[this.#attempts % endpoints.length];
    this.#attempts += 1;
    if (endpoint === undefined) throw notConnected();
    this.#endpoint = endpoint;
    return greet({ endpoint, caller: identity, now, signal, progress });
  }

  /** Stores the reason why there is no connection, and logs it once. */
  #note(error: unknown): void {
    const problem = errorMessage(error);
    const isNew = problem !== this.#problem;
    this.#problem = problem;
    if (isNew) this.#options.logger.warn({ err: error }, 'cannot connect to the centre; retrying');
  }

  /**
   * Proves the identity of the site and opens the connection. The promise resolves when the
   * connection has ended.
   */
  #open(
    { socket, raw, messages, proof, roundTripMs }: Greeting,
    onWelcome: () => void,
  ): Promise<EdgeError> {
    const { logger, now } = this.#options;
    messages.stop();
    return new Promise((resolve) => {
      let heartbeat: NodeJS.Timeout | undefined;
      const peer: LinkPeer<void> = new LinkPeer<void>({
        socket,
        handlers: this.#handlers,
        from: undefined,
        onWelcome: () => {
          if (this.#peer === peer) return;
          this.#opening = undefined;
          this.#peer = peer;
          this.#wasAccepted = true;
          heartbeat = beat(peer, raw, roundTripMs);
          onWelcome();
          this.#tell();
        },
        onEnd: (reason) => {
          clearInterval(heartbeat);
          if (this.#opening === peer) this.#opening = undefined;
          if (this.#peer === peer) {
            this.#lastContactAt = Math.round(now() - peer.silentMs);
            this.#peer = undefined;
            logger.info({ reason: reason.message }, 'the connection to the centre has ended');
            this.#tell();
          }
          resolve(reason);
        },
        onUnexpected: (error, name) =>
          logger.error(
            { err: error, name },
            'internal error while handling a request of the centre',
          ),
      });
      socket.send(proof);
      this.#opening = peer;
      for (const listener of this.#openingListeners) listener();
    });
  }

  #tell(): void {
    for (const listener of this.#listeners) listener(this.state);
  }
}

/** Sends heartbeats. Ends the connection if it does not transfer anything. */
function beat(peer: LinkPeer<void>, raw: LinkTraffic, roundTripMs: number): NodeJS.Timeout {
  const watch = new StallWatch(roundTripMs);
  return setInterval(() => {
    const action = watch.check(performance.now(), raw, peer.isWaiting);
    if (action === 'ping') peer.ping();
    if (action !== 'end') return;
    peer.end(1001, new EdgeError('ERR_SITE_LINK', 'the centre did not answer a heartbeat'));
  }, watchMs).unref();
}

function boundedBody(response: IncomingMessage, path: string, maxBytes: number): Readable {
  let bytes = 0;
  const bounded = new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      bytes += chunk.length;
      if (bytes <= maxBytes) done(null, chunk);
      else
        done(
          new EdgeError(
            'ERR_BUNDLE_CONTENT',
            `GET ${path} failed: the response exceeds ${maxBytes} bytes`,
          ),
        );
    },
  });
  response.on('error', (cause) => bounded.destroy(lostRequest(path, cause)));
  bounded.on('error', () => response.destroy());
  return response.pipe(bounded);
}

function lostRequest(path: string, cause: Error): EdgeError {
  return new EdgeError('ERR_SITE_LINK', `GET ${path} failed: ${cause.message}`, { cause });
}

function notConnected(): EdgeError {
  return new EdgeError('ERR_SITE_LINK', 'the site is not connected to its centre; retry later');
}
