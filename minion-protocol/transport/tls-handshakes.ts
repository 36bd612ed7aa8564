/** Starts the TLS handshakes of a server in turns of the event loop. */

import { constants } from 'node:crypto';
import type { Socket } from 'node:net';
import {
  DEFAULT_CIPHERS,
  DEFAULT_MAX_VERSION,
  type SecureContextOptions,
  type SecureVersion,
  type Server,
  type TLSSocket,
} from 'node:tls';
import { intercept } from '#runtime';
import { maxHelloBytes, readClientHello } from './client-hello.ts';
import type { GuardedConnection } from './connection-guard.ts';
import { HandshakeTurns } from './handshake-turns.ts';

/**
 * Node's list without RSA key exchange. With RSA key exchange, the server's private key would be
 * used for the second message of a client, which does not wait for a turn.
 */
const ciphers = `${DEFAULT_CIPHERS}:!kRSA`;

/**
 * OpenSSL's groups in one list of equal preference. The server then uses any key share that the
 * client has sent. With OpenSSL's own list, the server requests a second ClientHello if the client
 * supports a group that the server prefers. ML-KEM needs OpenSSL 3.5.
 */
const groups = [
  ...(hasMlKem(process.versions.openssl) ? ['X25519MLKEM768'] : []),
  'X25519',
  'prime256v1',
  'X448',
  'secp384r1',
  'secp521r1',
].join(':');

/** TLS options of a server, with which a handshake uses the private key once, in its turn. */
export const handshakeOptions = {
  ciphers,
  ecdhCurve: groups,
  // Each renegotiation would cost a signature, without a turn.
  secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
} satisfies SecureContextOptions;

/** A connection that was admitted. */
export interface AdmittedConnection {
  readonly guarded: GuardedConnection;
  /**
   * Starts the protocol of the port on the socket or its TLS stream. With TLS, call it after the
   * TLS handshake.
   */
  readonly open: (stream: Socket) => void;
}

/** Callbacks and turns of a port for its connections. */
export interface SecureConnections {
  /** Turns that the port shares with other ports. Default: turns of its own. */
  readonly turns?: Pick<HandshakeTurns, 'noteArrival' | 'tryEnter'>;
  /** Admits a connection. Returns `undefined` if the connection was rejected and has ended. */
  readonly onConnection: (socket: Socket) => AdmittedConnection | undefined;
  /** Called when a handshake failed. */
  readonly onRefused: (reason: 'tls-handshake' | 'tls-certificate') => void;
}

/**
 * Starts the TLS handshake of a connection when the complete ClientHello has arrived and it is the
 * turn of the address. The server then signs.
 *
 * A server can also request a second ClientHello, if the first contains no key share that the
 * server can use. The signature for the second one would have no turn, so the connection is ended.
 * @param server - uses {@link handshakeOptions}
 * @param maxVersion - latest version of TLS that the server accepts
 */
export function startHandshakesInTurns(
  server: Server,
  { turns = new HandshakeTurns(), onConnection, onRefused }: SecureConnections,
  maxVersion: SecureVersion = DEFAULT_MAX_VERSION,
): void {
  /**
   * Connections in the TLS handshake, by remote address and port. These are the only values that
   * the TCP socket and the TLS socket of a connection have in common.
   */
  const started = new Map<string, AdmittedConnection>();
  /** Connections whose ClientHello has not led to keys of TLS 1.3. */
  const withoutKeys = new Set<string>();
  intercept(server, 'connection', (proceed, socket: Socket) => {
    turns.noteArrival();
    const remote = remoteOf(socket);
    const admitted = onConnection(socket);
    if (admitted === undefined) return;
    const { guarded } = admitted;
    const start = (offersTls13: boolean): void => {
      started.set(remote, admitted);
      socket.once('close', () => {
        if (started.get(remote) === admitted) started.delete(remote);
      });
      if (offersTls13 && maxVersion === 'TLSv1.3') withoutKeys.add(remote);
      proceed();
      setImmediate(() => {
        // TLS then reports an error for the connection, which counts it.
        if (withoutKeys.delete(remote)) socket.destroy();
      });
    };
    const takeHello = awaitHello(socket, guarded, (offersTls13) => {
      guarded.awaitHandshake();
      const mayWait = turns.tryEnter(guarded, () => {
        if (socket.destroyed) return false;
        guarded.beginHandshake();
        socket.unshift(takeHello());
        start(offersTls13);
        return true;
      });
      if (!mayWait) guarded.refuse('too-many-handshakes');
    });
  });
  server.on('keylog', (_line: Buffer, stream: TLSSocket) => withoutKeys.delete(remoteOf(stream)));
  server.on('secureConnection', (stream: TLSSocket) => {
    const admitted = started.get(remoteOf(stream));
    if (admitted === undefined) stream.destroy();
    else if (!stream.destroyed) admitted.open(stream);
  });
  server.on('tlsClientError', (_error: Error, stream: TLSSocket) => {
    withoutKeys.delete(remoteOf(stream));
    onRefused('tls-handshake');
    stream.destroy();
  });
}

/**
 * Waits for a complete ClientHello. Ends the connection if the first bytes are no ClientHello, or
 * if more bytes arrive than a client sends before the answer.
 * @returns a function that stops reading from the socket and returns the ClientHello
 */
function awaitHello(
  socket: Socket,
  guarded: GuardedConnection,
  onHello: (offersTls13: boolean) => void,
): () => Buffer {
  let received: Buffer = Buffer.alloc(0);
  let isComplete = false;
  const read = (): void => {
    const bytes: Buffer | null = socket.read();
    if (bytes === null) return;
    received = Buffer.concat([received, bytes]);
    guarded.setHeldBytes(received.length);
    const hello = readClientHello(received);
    if (isComplete || hello === undefined || received.length > maxHelloBytes) {
      guarded.refuse('tls-handshake');
    } else if (hello.isComplete) {
      isComplete = true;
      onHello(hello.offersTls13);
    }
  };
  socket.on('readable', read);
  // A connection that has ended keeps its place in the queue, but not its bytes.
  socket.once('close', () => {
    received = Buffer.alloc(0);
  });
  return () => {
    socket.off('readable', read);
    const hello = received;
    received = Buffer.alloc(0);
    return hello;
  };
}

function hasMlKem(openssl: string): boolean {
  const [major = 0, minor = 0] = openssl.split('.').map(Number);
  return major > 3 || (major === 3 && minor >= 5);
}

function remoteOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
