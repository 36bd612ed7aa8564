/** Connects a site to a centre, up to the last message of the handshake. */

import { randomBytes } from 'node:crypto';
import type { ClientRequest, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
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
} from './handshake.ts';
import { HandshakeMessages } from './handshake-messages.ts';

/**
 * Maximum duration of connecting and the handshake, in milliseconds. Slow links need several
 * seconds.
 */
export const connectMs = 60_000;

/** Parts of an identity that a handshake needs. */
type Caller = Pick<SiteIdentity, 'centreKey' | 'key' | 'name'>;

/** Connection whose centre has proved its identity. */
export interface Greeting {
  readonly endpoint: CentreEndpoint;
  readonly socket: WebSocket;
  /** TCP or TLS socket below the WebSocket. */
  readonly raw: Socket;
  readonly messages: HandshakeMessages;
  readonly challenge: Challenge;
  /** Clock of the centre minus clock of the site, in milliseconds. */
  readonly clockDifferenceMs: number;
  /** Duration between the hello and the challenge, in milliseconds. */
  readonly roundTripMs: number;
  /** Third message: the proof of the site. The centre answers it with an empty message. */
  readonly proof: Buffer;
}

export interface GreetOptions {
  readonly endpoint: CentreEndpoint;
  readonly caller: Caller;
  readonly now: () => number;
  /** Ends the attempt. */
  readonly signal: AbortSignal;
  readonly progress?: DialProgress;
}

/**
 * Connects to a centre, sends the hello with the upgrade request, and verifies the challenge.
 * @throws EdgeError ERR_SITE_LINK, ERR_SITE_MESSAGE; ERR_SITE_REFUSED if the other side does not
 * have the key of the centre
 */
export async function greet(options: GreetOptions): Promise<Greeting> {
  const { endpoint, caller, now, signal, progress } = options;
  const isBound = isSecure(endpoint) && !endpoint.behindProxy;
  let sent: { readonly hello: Buffer; readonly at: number; readonly begun: number } | undefined;
  const socket = new WebSocket(`${edgeAddress(endpoint.centre).replace(/^http/, 'ws')}/link`, {
    perMessageDeflate: false,
    maxPayload: maxFrameBytes,
    handshakeTimeout: connectMs,
    skipUTF8Validation: true,
    autoPong: false,
    ...(endpoint.ca === undefined ? {} : { ca: Buffer.from(endpoint.ca) }),
    finishRequest: (request) =>
      whenConnected(request, isSecure(endpoint), progress, () => {
        const at = now();
        const hello = encodeHello({
          protocol: protocolVersion,
          version,
          nonce: randomBytes(nonceBytes),
          time: at,
          site: caller.name,
          isBound,
        });
        sent = { hello, at, begun: performance.now() };
        request.setHeader(helloHeader, hello.toString('base64url'));
        request.end();
      }),
  });
  const end = (): void => socket.terminate();
  const time = setTimeout(end, connectMs);
  signal.addEventListener('abort', end, { once: true });
  // Listen before the socket is open, because the challenge follows the reply to the upgrade.
  const messages = new HandshakeMessages(socket);
  try {
    const raw = await opened(socket);
    if (sent === undefined) throw new EdgeError('ERR_SITE_LINK', 'the connection ended');
    const { hello, at, begun } = sent;
    const binding = isBound ? bindingOf(raw) : Buffer.alloc(0);
    const bytes = await messages.next();
    const challenge = readChallenge(caller.centreKey, hello, bytes, binding);
    const clockDifferenceMs = Math.round(challenge.time - (at + now()) / 2);
    const roundTripMs = performance.now() - begun;
    const proof = encodeProof(caller.key, hello, bytes, binding);
    const known = { endpoint, socket, raw, messages };
    return { ...known, challenge, clockDifferenceMs, roundTripMs, proof };
  } catch (error) {
    socket.terminate();
    throw error;
  } finally {
    clearTimeout(time);
    signal.removeEventListener('abort', end);
  }
}

/** Reports the progress of a request, and calls `send` when its socket is connected. */
function whenConnected(
  request: ClientRequest,
  isSecureSocket: boolean,
  progress: DialProgress | undefined,
  send: () => void,
): void {
  request.once('socket', (socket) => {
    const onResolved = (): void => progress?.onResolved();
    socket.once('lookup', onResolved);
    socket.once('connectionAttempt', onResolved);
    socket.once('connect', () => progress?.onReached());
    socket.once(isSecureSocket ? 'secureConnect' : 'connect', send);
  });
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
  const { socket, messages, proof } = await greet({ endpoint, caller, now, signal: stopped });
  const stop = (): void => socket.terminate();
  const timer = setTimeout(stop, connectMs);
  stopped.addEventListener('abort', stop, { once: true });
  try {
    socket.send(proof);
    const welcome = await messages.next().catch((error: unknown) => {
      if (codeOf(error) === 'ERR_SITE_REFUSED') return undefined;
      throw error;
    });
    if (welcome === undefined) return false;
    if (welcome.length === 0) return true;
    throw new EdgeError('ERR_SITE_MESSAGE', 'the centre did not end the handshake as expected');
  } finally {
    clearTimeout(timer);
    stopped.removeEventListener('abort', stop);
    socket.close(1000);
    setTimeout(() => socket.terminate(), 1000).unref();
  }
}

/** Resolves with the socket below a WebSocket when it is open. */
function opened(socket: WebSocket): Promise<Socket> {
  return new Promise((resolve, reject) => {
    let raw: Socket | undefined;
    socket.on('upgrade', (response: IncomingMessage) => {
      raw = response.socket;
    });
    socket.on('open', () => {
      if (raw !== undefined) resolve(raw);
    });
    socket.on('close', () => reject(new EdgeError('ERR_SITE_LINK', 'the connection ended')));
    socket.on('error', (cause: Error) => {
      reject(
        new EdgeError('ERR_SITE_LINK', `cannot connect to the centre: ${cause.message}`, { cause }),
      );
    });
  });
}
