/**
 * TLS on a port, configured with the names of Salt's `ssl` option [WIRE 4.5;
 * salt/transport/base.py].
 */
import { constants } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import {
  createServer,
  DEFAULT_CIPHERS,
  type SecureContextOptions,
  Server as SecureServer,
  type TlsOptions as ServerOptions,
  type TLSSocket,
} from 'node:tls';
import { FileReloader } from '#runtime';
import { maxHelloBytes, readClientHello } from './client-hello.ts';
import type { GuardedConnection } from './connection-guard.ts';
import type { HandshakeTurns } from './handshake-turns.ts';
import { type BoundServer, bind, type ListenOptions } from './listening.ts';
import { TransportError } from './transport.ts';

/** Whether peers must present a certificate (Salt's `cert_reqs`). */
type ClientCertificates =
  /** No certificate is requested. */
  | 'none'
  /** A certificate is not required. If a peer presents one, it must be signed by `ca_certs`. */
  | 'optional'
  | 'required';

/** TLS options of a port. Files are in PEM format. */
export interface TlsOptions {
  /** File of the private key (`keyfile`). Default: the key is in `certFile`. */
  readonly keyFile?: string;
  /** File of the certificate and its chain (`certfile`). */
  readonly certFile: string;
  /** File of the CAs that sign the peers' certificates (`ca_certs`). */
  readonly caFile?: string;
  /**
   * Whether peers need a certificate (`cert_reqs`). A certificate permits a connection, but does
   * not identify the minion.
   */
  readonly clientCertificates: ClientCertificates;
  /** Only TLS version to accept. Default: TLS 1.2 and later. */
  readonly onlyVersion?: 'TLSv1.2' | 'TLSv1.3';
  /** Cipher list in OpenSSL's format (`ciphers`). Default: Node's list without RSA key exchange. */
  readonly ciphers?: string;
  /** Interval between checks for changed files, in milliseconds. Default: 20,000. */
  readonly renewalIntervalMs?: number;
  /**
   * Called after a periodic check has loaded changed files. If the files cannot be used, called
   * with the error; the previous files then stay in use.
   */
  readonly onRenewal?: (error: unknown) => void;
}

/**
 * Node's list without RSA key exchange. With RSA key exchange, the master's private key would be
 * used for the second message of a client, which does not wait for a turn.
 */
const defaultCiphers = `${DEFAULT_CIPHERS}:!kRSA`;

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

/** Contents of the files that the options name. */
export interface LoadedTls {
  readonly options: TlsOptions;
  readonly contents: readonly Buffer[];
}

/** A connection that was admitted. */
export interface AdmittedConnection {
  readonly guarded: GuardedConnection;
  /**
   * Starts the port's protocol on the socket or its TLS stream. With TLS, call it after the TLS
   * handshake.
   */
  readonly open: (stream: Socket) => void;
}

/** Callbacks and turns of a port for its connections. */
export interface SecureConnections {
  readonly turns: Pick<HandshakeTurns, 'noteArrival' | 'tryEnter'>;
  /** Admits a connection. Returns `undefined` if the connection was rejected and has ended. */
  readonly onConnection: (socket: Socket) => AdmittedConnection | undefined;
  /** Called when a handshake failed. */
  readonly onRefused: (reason: 'tls-handshake' | 'tls-certificate') => void;
}

/**
 * Binds a port that uses TLS from the first byte. The master signs in the handshake when the
 * complete ClientHello has arrived and it is the turn of its address.
 *
 * A server can also request a second ClientHello, if the first contains no key share that the
 * server can use. The signature for the second one would have no turn, so the connection is ended.
 * @throws {@link TransportError} ERR_TLS for files that cannot be read or used, ERR_LISTEN
 */
export function listenSecurely(
  address: ListenOptions,
  loaded: LoadedTls,
  { turns, onConnection, onRefused }: SecureConnections,
): Promise<BoundServer> {
  const { options } = loaded;
  const server = createSecureServer(loaded, address);
  const listeners = server.listeners('connection');
  /**
   * Connections in the TLS handshake, by remote address and port. These are the only values that
   * the TCP socket and the TLS socket of a connection have in common.
   */
  const waiting = new Map<string, AdmittedConnection>();
  /** Connections whose ClientHello has not led to keys of TLS 1.3. */
  const withoutKeys = new Set<string>();
  server.removeAllListeners('connection');
  server.on('connection', (socket: Socket) => {
    turns.noteArrival();
    const remote = remoteOf(socket);
    const admitted = onConnection(socket);
    if (admitted === undefined) return;
    const { guarded } = admitted;
    const start = (hello: Buffer, offersTls13: boolean): void => {
      waiting.set(remote, admitted);
      socket.once('close', () => {
        if (waiting.get(remote) === admitted) waiting.delete(remote);
      });
      if (offersTls13 && options.onlyVersion !== 'TLSv1.2') withoutKeys.add(remote);
      socket.unshift(hello);
      for (const listener of listeners) listener.call(server, socket);
      setImmediate(() => {
        // TLS then reports an error for the connection, which counts it.
        if (withoutKeys.delete(remote)) socket.destroy();
      });
    };
    const refuse = (): void => guarded.refuse('tls-handshake');
    const takeHello = awaitHello(socket, refuse, (hello, offersTls13) => {
      guarded.awaitHandshake(hello.length);
      const mayWait = turns.tryEnter(guarded, () => {
        if (socket.destroyed) return false;
        guarded.beginHandshake();
        start(takeHello(), offersTls13);
        return true;
      });
      if (!mayWait) guarded.refuse('too-many-handshakes');
    });
  });
  server.on('keylog', (_line: Buffer, stream: TLSSocket) => withoutKeys.delete(remoteOf(stream)));
  server.on('secureConnection', (stream: TLSSocket) => {
    const admitted = waiting.get(remoteOf(stream));
    if (admitted === undefined || hasFalseCertificate(stream, options)) {
      if (admitted !== undefined) onRefused('tls-certificate');
      stream.destroy();
      return;
    }
    admitted.open(stream);
  });
  server.on('tlsClientError', (_error: Error, stream: TLSSocket) => {
    withoutKeys.delete(remoteOf(stream));
    onRefused('tls-handshake');
    stream.destroy();
  });
  return bind(server, address);
}

/**
 * Waits for a complete ClientHello.
 * @param refuse - called if the first bytes are no ClientHello, or if more bytes arrive than a
 * client sends before the answer
 * @returns a function that stops reading from the socket and returns the ClientHello
 */
function awaitHello(
  socket: Socket,
  refuse: () => void,
  onHello: (hello: Buffer, offersTls13: boolean) => void,
): () => Buffer {
  let received: Buffer = Buffer.alloc(0);
  let isComplete = false;
  const read = (): void => {
    const bytes: Buffer | null = socket.read();
    if (bytes === null) return;
    received = Buffer.concat([received, bytes]);
    const hello = readClientHello(received);
    if (isComplete || hello === undefined || received.length > maxHelloBytes) refuse();
    else if (hello.isComplete) {
      isComplete = true;
      onHello(received, hello.offersTls13);
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

/**
 * Reads the files.
 * @throws {@link TransportError} ERR_TLS
 */
export function loadTls(options: TlsOptions): LoadedTls {
  return { options, contents: filesOf(options).map(readPem) };
}

/**
 * Returns an object that applies changed TLS files to these servers. Later connections use the new
 * files.
 */
export function renewTls(
  { options, contents }: LoadedTls,
  servers: readonly BoundServer[],
): FileReloader {
  const { renewalIntervalMs: intervalMs, onRenewal = () => {} } = options;
  return new FileReloader(
    {
      files: filesOf(options),
      ...(intervalMs === undefined ? {} : { intervalMs }),
      apply: (renewed) => {
        for (const { server } of servers) {
          if (server instanceof SecureServer) configureTls(server, { options, contents: renewed });
        }
      },
      onRenewed: () => onRenewal(undefined),
      onFailure: onRenewal,
    },
    contents,
  );
}

function configureTls(server: SecureServer, loaded: LoadedTls): void {
  try {
    server.setSecureContext(contextOf(loaded));
  } catch (cause) {
    throw unusableFiles(loaded.options, cause);
  }
}

function createSecureServer(loaded: LoadedTls, { keepAliveIdleMs }: ListenOptions): SecureServer {
  const { clientCertificates } = loaded.options;
  const settings: ServerOptions = {
    ...contextOf(loaded),
    requestCert: clientCertificates !== 'none',
    rejectUnauthorized: clientCertificates === 'required',
    noDelay: true,
    keepAlive: keepAliveIdleMs !== null,
    keepAliveInitialDelay: keepAliveIdleMs ?? 0,
  };
  try {
    return createServer(settings);
  } catch (cause) {
    throw unusableFiles(loaded.options, cause);
  }
}

function contextOf({ options, contents }: LoadedTls): SecureContextOptions {
  const { onlyVersion, ciphers } = options;
  const [cert, key, ca] = contents;
  return {
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(ca === undefined ? {} : { ca }),
    minVersion: onlyVersion ?? 'TLSv1.2',
    ...(onlyVersion === undefined ? {} : { maxVersion: onlyVersion }),
    ciphers: ciphers ?? defaultCiphers,
    ecdhCurve: groups,
    // Each renegotiation would cost a signature, without a turn.
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
  };
}

function hasMlKem(openssl: string): boolean {
  const [major = 0, minor = 0] = openssl.split('.').map(Number);
  return major > 3 || (major === 3 && minor >= 5);
}

/** Returns the files of the certificate, the key and the CAs, in this order. */
function filesOf({ certFile, keyFile, caFile }: TlsOptions): string[] {
  return [certFile, keyFile ?? certFile, ...(caFile === undefined ? [] : [caFile])];
}

function unusableFiles({ certFile }: TlsOptions, cause: unknown): TransportError {
  const message = `cannot use the TLS certificate ${certFile}, or the key, CA certificates or ciphers configured with it`;
  return new TransportError('ERR_TLS', message, { cause });
}

function readPem(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (cause) {
    throw new TransportError('ERR_TLS', `cannot read the TLS file ${file}`, { cause });
  }
}

/**
 * Whether a peer presented an invalid certificate. If certificates are optional, Node.js accepts an
 * invalid one and only reports it.
 */
function hasFalseCertificate(stream: TLSSocket, { clientCertificates }: TlsOptions): boolean {
  if (clientCertificates === 'none' || stream.authorized) return false;
  return clientCertificates === 'required' || stream.getPeerX509Certificate() !== undefined;
}

function remoteOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
