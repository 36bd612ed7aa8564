/** TLS on a port, by the names of Salt's `ssl` option [WIRE 4.5; salt/transport/base.py]. */
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { createServer, type TlsOptions as ServerOptions, type TLSSocket } from 'node:tls';
import { TransportError } from './errors.ts';
import { type BoundServer, bind, type ListenOptions } from './listening.ts';

/** Whether peers have to show a certificate. Salt's `cert_reqs`. */
export type ClientCertificates =
  /** Nobody is asked. */
  | 'none'
  /** Whoever shows one must show one that is signed by `ca_certs`. */
  | 'optional'
  | 'required';

/** What a port needs to speak TLS. Paths of PEM files. */
export interface TlsOptions {
  /** `keyfile`: private key. Default: it is in `certFile`. */
  readonly keyFile?: string;
  /** `certfile`: certificate, with its chain. */
  readonly certFile: string;
  /** `ca_certs`: who signs certificates of peers. */
  readonly caFile?: string;
  /** `cert_reqs`. A certificate admits its holder; it does not say which minion that is. */
  readonly clientCertificates: ClientCertificates;
  /** Version that is spoken, and no other. Default: TLS 1.2 and later. */
  readonly onlyVersion?: 'TLSv1.2' | 'TLSv1.3';
  /** `ciphers`: OpenSSL's list. Default: Node's. */
  readonly ciphers?: string;
}

/** What is done with connections. */
export interface SecureConnections {
  /** Takes a connection in; gives what is called when its handshake is done. */
  readonly onConnection: (socket: Socket) => ((stream: Socket) => void) | undefined;
  /** A handshake failed. */
  readonly onRefused: (reason: 'tls-handshake' | 'tls-certificate') => void;
}

/**
 * Binds a port that speaks TLS from the first byte.
 * @throws {@link TransportError} ERR_TLS for files that cannot be read or used, ERR_LISTEN
 */
export function listenSecurely(
  address: ListenOptions,
  options: TlsOptions,
  { onConnection, onRefused }: SecureConnections,
): Promise<BoundServer> {
  const server = createSecureServer(options, address);
  /** What waits for its handshake, by the one thing that both sockets of a connection tell. */
  const waiting = new Map<string, (stream: Socket) => void>();
  server.on('connection', (socket: Socket) => {
    const remote = remoteOf(socket);
    const proceed = onConnection(socket);
    if (proceed === undefined) return;
    waiting.set(remote, proceed);
    socket.once('close', () => waiting.delete(remote));
  });
  server.on('secureConnection', (stream: TLSSocket) => {
    const proceed = waiting.get(remoteOf(stream));
    if (proceed === undefined || hasFalseCertificate(stream, options)) {
      if (proceed !== undefined) onRefused('tls-certificate');
      stream.destroy();
      return;
    }
    proceed(stream);
  });
  server.on('tlsClientError', (_error: Error, stream: TLSSocket) => {
    onRefused('tls-handshake');
    stream.destroy();
  });
  return bind(server, address);
}

function createSecureServer(options: TlsOptions, { keepAliveIdleMs }: ListenOptions) {
  const { keyFile, certFile, caFile, clientCertificates, onlyVersion, ciphers } = options;
  const settings: ServerOptions = {
    cert: readPem(certFile),
    key: readPem(keyFile ?? certFile),
    ...(caFile === undefined ? {} : { ca: readPem(caFile) }),
    requestCert: clientCertificates !== 'none',
    rejectUnauthorized: clientCertificates === 'required',
    minVersion: onlyVersion ?? 'TLSv1.2',
    ...(onlyVersion === undefined ? {} : { maxVersion: onlyVersion }),
    ...(ciphers === undefined ? {} : { ciphers }),
    noDelay: true,
    keepAlive: keepAliveIdleMs !== null,
    keepAliveInitialDelay: keepAliveIdleMs ?? 0,
  };
  try {
    return createServer(settings);
  } catch (cause) {
    throw new TransportError('ERR_TLS', `the TLS files or ciphers cannot be used: ${certFile}`, {
      cause,
    });
  }
}

function readPem(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (cause) {
    throw new TransportError('ERR_TLS', `cannot read ${file}`, { cause });
  }
}

/** Where certificates are optional Node lets a bad one pass and only says so. */
function hasFalseCertificate(stream: TLSSocket, { clientCertificates }: TlsOptions): boolean {
  if (clientCertificates === 'none' || stream.authorized) return false;
  return clientCertificates === 'required' || stream.getPeerX509Certificate() !== undefined;
}

function remoteOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
