/** Connects a site to a centre, up to the last message of the handshake. */

import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocket } from 'ws';
import { version } from '#master';
import { codeOf } from '#runtime';
import { EdgeError } from '../errors.ts';
import type { SiteIdentity } from '../identity/site-identity.ts';
import { bindingOf } from './binding.ts';
import { type CentreEndpoint, isSecure } from './centre-endpoint.ts';
import { edgeAddress } from './edge-address.ts';
import { maxFrameBytes } from './frames.ts';
import {
  type Challenge,
  encodeHello,
  encodeProof,
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

/** Connection whose centre has shown that it has its key. */
export interface AnsweredHandshake {
  readonly messages: HandshakeMessages;
  readonly challenge: Challenge;
  /** Clock of the centre minus clock of the site, in milliseconds. */
  readonly clockDifferenceMs: number;
  /** Third message: the proof of the site. The centre answers it with an empty message. */
  readonly proof: Buffer;
}

/** Creates the socket of a connection to a centre. */
export function openSocket(endpoint: CentreEndpoint): WebSocket {
  const url = `${edgeAddress(endpoint.centre).replace(/^http/, 'ws')}/link`;
  return new WebSocket(url, {
    perMessageDeflate: false,
    maxPayload: maxFrameBytes,
    handshakeTimeout: connectMs,
    skipUTF8Validation: true,
    autoPong: false,
    ...(endpoint.ca === undefined ? {} : { ca: Buffer.from(endpoint.ca) }),
  });
}

/**
 * Waits until the socket is open, sends the hello, and verifies the challenge of the centre.
 * @throws EdgeError ERR_SITE_LINK, ERR_SITE_MESSAGE; ERR_SITE_REFUSED if the other side does not
 * have the key of the centre
 */
export async function beginHandshake(
  socket: WebSocket,
  endpoint: CentreEndpoint,
  { centreKey, key, name }: Caller,
  now: () => number,
): Promise<AnsweredHandshake> {
  const raw = await opened(socket);
  const messages = new HandshakeMessages(socket);
  const isBound = isSecure(endpoint) && !endpoint.behindProxy;
  const binding = isBound ? bindingOf(raw) : Buffer.alloc(0);
  const sentAt = now();
  const hello = encodeHello({
    protocol: protocolVersion,
    version,
    nonce: randomBytes(nonceBytes),
    time: sentAt,
    site: name,
    isBound,
  });
  socket.send(hello);
  const bytes = await messages.next();
  const challenge = readChallenge(centreKey, hello, bytes, binding);
  const clockDifferenceMs = Math.round(challenge.time - (sentAt + now()) / 2);
  const proof = encodeProof(key, hello, bytes, binding);
  return { messages, challenge, clockDifferenceMs, proof };
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
  const socket = openSocket(endpoint);
  const stop = (): void => socket.terminate();
  const timer = setTimeout(stop, connectMs);
  stopped.addEventListener('abort', stop, { once: true });
  try {
    const { messages, proof } = await beginHandshake(socket, endpoint, caller, now);
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
function opened(socket: WebSocket): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    let raw: Duplex | undefined;
    socket.on('upgrade', (response: IncomingMessage) => {
      raw = response.socket;
    });
    socket.on('open', () => {
      if (raw !== undefined) resolve(raw);
    });
    socket.on('error', (cause: Error) => {
      reject(
        new EdgeError('ERR_SITE_LINK', `cannot connect to the centre: ${cause.message}`, { cause }),
      );
    });
  });
}
