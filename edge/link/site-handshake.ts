/** Connects a site to a centre, and performs the handshake except its last message. */

import { randomBytes } from 'node:crypto';
import type { ClientRequest } from 'node:http';
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { WebSocket } from 'ws';
import { version } from '#master';
import { codeOf } from '#runtime';
import { EdgeError } from '../errors.ts';
import type { SiteIdentity } from '../identity/site-identity.ts';
import { bindingOf } from './binding.ts';
import { type CentreEndpoint, isSecure } from './centre-endpoint.ts';
import type { DialProgress } from './dial.ts';
import { edgeAddress } from './edge-address.ts';
import { maxFrameBytes } from './frames.ts';
import {
  type Challenge,
  encodeHello,
  encodeProof,
  helloHeader,
  nonceBytes,
  protocolVersion,
  readChallenge,
  signHello,
  unsignedHello,
} from './handshake.ts';
import { HandshakeMessages } from './handshake-messages.ts';
import { maxEarlyRequests } from './link.ts';

/**
 * Maximum duration of connecting and the handshake, in milliseconds. Slow links need several
 * seconds.
 */
const connectMs = 60_000;

/**
 * Maximum number of received messages that wait to be read. During the handshake, the centre may
 * send two messages at once, and one reply to each early request.
 */
const maxAdvance = 2 + maxEarlyRequests;

/** Fields of a site's identity that a handshake needs. */
type Caller = Pick<SiteIdentity, 'centreKey' | 'key' | 'name'>;

/** Connection to a centre that has proved its identity in the handshake. */
export interface Greeting {
  readonly endpoint: CentreEndpoint;
  readonly socket: WebSocket;
  /** TCP or TLS socket below the WebSocket. */
  readonly raw: Socket;
  readonly messages: HandshakeMessages;
  readonly challenge: Challenge;
  /** Clock of the centre minus clock of the site, in milliseconds. */
  readonly clockDifferenceMs: number;
  /**
   * Time between the site's first message (hello) and the centre's answer (challenge), in
   * milliseconds.
   */
  readonly roundTripMs: number;
  /**
   * Third message of the handshake: the proof of the site's identity. `undefined` if the hello
   * contains the proof.
   */
  readonly proof: Buffer | undefined;
}

/** Store of TLS sessions, which later connections resume. */
export interface TlsSessions {
  /** Returns the TLS session of the last connection to this centre, or `undefined`. */
  find(centre: string): Buffer | undefined;
  store(centre: string, session: Buffer): void;
}

export interface GreetOptions {
  readonly endpoint: CentreEndpoint;
  readonly caller: Caller;
  readonly now: () => number;
  /** Ends the attempt to connect when it is aborted. */
  readonly signal: AbortSignal;
  readonly progress?: DialProgress;
  readonly sessions?: TlsSessions;
  /**
   * Returns encrypted requests that are sent together with the first message (hello), or
   * `undefined` if there are none.
   */
  readonly early?: () => Promise<Uint8Array | undefined>;
}

/** First message of the handshake (hello) that this site has sent. */
interface SentHello {
  /**
   * Encoded first message of the handshake (hello). The signatures in the handshake cover these
   * bytes.
   */
  readonly body: Buffer;
  readonly binding: Uint8Array;
  /**
   * Time at which the site sent the first message of the handshake (hello), by its own clock, in
   * milliseconds since 1970.
   */
  readonly at: number;
  readonly begun: number;
}

/**
 * Connects to a centre, and sends the first message of the handshake (hello) with the upgrade
 * request. Then verifies the centre's answer (challenge).
 * @throws EdgeError ERR_SITE_LINK, ERR_SITE_MESSAGE; ERR_SITE_REFUSED if the other side does not
 * have the key of the centre
 */
export async function greet(options: GreetOptions): Promise<Greeting> {
  const { endpoint, caller, now, signal } = options;
  const ended = new AbortController();
  const end = (): void => ended.abort();
  const time = setTimeout(end, connectMs);
  signal.addEventListener('abort', end, { once: true });
  try {
    if (signal.aborted) end();
    const raw = await reach(options, ended.signal);
    const { socket, sent } = open(raw, options);
    ended.signal.addEventListener('abort', () => socket.terminate(), { once: true });
    // Listen before the socket is open, because the challenge follows the reply to the upgrade.
    const messages = new HandshakeMessages(socket, { maxBytes: maxFrameBytes, maxAdvance });
    try {
      await opened(socket);
      const { body, binding, at, begun } = await sent;
      const bytes = await messages.next();
      const challenge = readChallenge(caller.centreKey, body, bytes, binding);
      const clockDifferenceMs = Math.round(challenge.time - (at + now()) / 2);
      const roundTripMs = performance.now() - begun;
      const proof = isBound(endpoint) ? undefined : encodeProof(caller.key, body, bytes, binding);
      const known = { endpoint, socket, raw, messages };
      return { ...known, challenge, clockDifferenceMs, roundTripMs, proof };
    } catch (error) {
      socket.terminate();
      throw error;
    }
  } finally {
    clearTimeout(time);
    signal.removeEventListener('abort', end);
  }
}

/**
 * Sends the proof of the site's identity, unless the first message of the handshake (hello)
 * contained it. Then waits until the centre has accepted the site.
 * @throws EdgeError ERR_SITE_LINK, ERR_SITE_MESSAGE; ERR_SITE_REFUSED if the centre refuses the
 * site
 */
export async function beWelcomed(
  { socket, messages, proof }: Greeting,
  signal: AbortSignal,
): Promise<void> {
  const stop = (): void => socket.terminate();
  const timer = setTimeout(stop, connectMs);
  signal.addEventListener('abort', stop, { once: true });
  try {
    if (signal.aborted) stop();
    if (proof !== undefined) socket.send(proof);
    const welcome = await messages.next();
    if (welcome.length === 0) return;
    throw new EdgeError('ERR_SITE_MESSAGE', 'the centre did not end the handshake as expected');
  } catch (error) {
    stop();
    throw error;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', stop);
  }
}

/**
 * Returns whether the signatures of the handshake cover the keying material of the TLS connection.
 * They do if the centre itself, and not a proxy, ends the TLS connection.
 */
function isBound(endpoint: CentreEndpoint): boolean {
  return isSecure(endpoint) && !endpoint.behindProxy;
}

/** Opens a TCP connection, and for an address with https, a TLS connection on top of it. */
async function reach(
  { endpoint, progress, sessions }: GreetOptions,
  signal: AbortSignal,
): Promise<Socket> {
  const { hostname, port } = new URL(endpoint.centre);
  const host = hostname.replace(/^\[|\]$/g, '');
  const isTls = isSecure(endpoint);
  const tcp = connectTcp({
    host,
    port: port === '' ? (isTls ? 443 : 80) : Number(port),
    noDelay: true,
    signal,
  });
  const onResolved = (): void => progress?.onResolved();
  tcp.once('lookup', onResolved);
  tcp.once('connectionAttempt', onResolved);
  await connected(tcp, 'connect');
  try {
    // The TLS handshake begins afterwards, so that an attempt that must end sends nothing more.
    progress?.onReached();
    if (!isTls) return tcp;
    const { centre, ca } = endpoint;
    const session = sessions?.find(centre);
    const tls = connectTls({
      socket: tcp,
      host,
      servername: isIP(host) === 0 ? host : '',
      ...(isBound(endpoint) ? { minVersion: 'TLSv1.3' } : {}),
      ...(ca === undefined ? {} : { ca: Buffer.from(ca) }),
      ...(session === undefined ? {} : { session }),
    });
    tls.on('session', (next: Buffer) => sessions?.store(centre, next));
    await connected(tls, 'secureConnect');
    return tls;
  } catch (error) {
    tcp.destroy();
    throw error;
  }
}

/** Resolves at the given event of a socket. */
function connected(socket: Socket | TLSSocket, event: 'connect' | 'secureConnect'): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.once(event, resolve);
    socket.once('error', (cause: Error) => reject(unreached(cause)));
    socket.once('close', () => reject(new EdgeError('ERR_SITE_LINK', 'the connection ended')));
  });
}

/**
 * Creates a WebSocket on a connected socket. Its upgrade request contains the first message of the
 * handshake (hello).
 */
function open(
  raw: Socket,
  options: GreetOptions,
): { readonly socket: WebSocket; readonly sent: Promise<SentHello> } {
  const { endpoint, caller, now, early } = options;
  const binding = isBound(endpoint) ? bindingOf(raw) : Buffer.alloc(0);
  const send = async (request: ClientRequest): Promise<SentHello> => {
    const sealed = await early?.();
    const at = now();
    const body = encodeHello({
      protocol: protocolVersion,
      version,
      nonce: randomBytes(nonceBytes),
      time: at,
      site: caller.name,
      isBound: isBound(endpoint),
      ...(sealed === undefined ? {} : { early: sealed }),
    });
    const hello = isBound(endpoint) ? signHello(caller.key, body, binding) : unsignedHello(body);
    request.setHeader(helloHeader, hello.toString('base64url'));
    request.end();
    return { body, binding, at, begun: performance.now() };
  };
  let sent: Promise<SentHello> | undefined;
  const socket = new WebSocket(`${edgeAddress(endpoint.centre).replace(/^http/, 'ws')}/link`, {
    perMessageDeflate: false,
    maxPayload: maxFrameBytes,
    handshakeTimeout: connectMs,
    skipUTF8Validation: true,
    autoPong: false,
    createConnection: () => raw,
    finishRequest: (request) => {
      sent = send(request);
      sent.catch((error: unknown) => raw.destroy(error instanceof Error ? error : undefined));
    },
  });
  if (sent === undefined) throw new EdgeError('ERR_SITE_LINK', 'the request was not sent');
  return { socket, sent };
}

/**
 * Connects to a centre, performs the whole handshake, and ends the connection.
 * @returns whether the centre accepts the site with this key
 * @throws EdgeError ERR_SITE_LINK, ERR_SITE_MESSAGE; ERR_SITE_REFUSED if the other side does not
 * have the key of the centre
 */
export async function probeCentre(
  endpoint: CentreEndpoint,
  caller: Caller,
  now: () => number,
  stopped: AbortSignal,
): Promise<boolean> {
  const greeting = await greet({ endpoint, caller, now, signal: stopped });
  const { socket } = greeting;
  try {
    await beWelcomed(greeting, stopped);
    return true;
  } catch (error) {
    if (codeOf(error) === 'ERR_SITE_REFUSED') return false;
    throw error;
  } finally {
    socket.close(1000);
    setTimeout(() => socket.terminate(), 1000).unref();
  }
}

/** Resolves when a WebSocket is open. */
function opened(socket: WebSocket): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.on('open', resolve);
    socket.on('close', () => reject(new EdgeError('ERR_SITE_LINK', 'the connection ended')));
    socket.on('error', (cause: Error) => reject(unreached(cause)));
  });
}

function unreached(cause: Error): EdgeError {
  return new EdgeError('ERR_SITE_LINK', `cannot connect to the centre: ${cause.message}`, {
    cause,
  });
}
