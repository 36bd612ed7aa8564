/** TLS on a port, by the names of Salt's `ssl` option [WIRE 4.5; salt/transport/base.py]. */
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import {
  createServer,
  type SecureContextOptions,
  Server as SecureServer,
  type TlsOptions as ServerOptions,
  type TLSSocket,
} from 'node:tls';
import { FileReloader } from '#runtime';
import { type BoundServer, bind, type ListenOptions } from './listening.ts';
import { TransportError } from './transport.ts';

/** Whether peers have to show a certificate. Salt's `cert_reqs`. */
type ClientCertificates =
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
  /** Milliseconds between two looks whether the files have changed. Default 20,000. */
  readonly renewalIntervalMs?: number;
  /**
   * Told when renewed files have been put in force without {@link MasterTransport.renewCertificate},
   * or why they cannot be: the former ones stay then.
   */
  readonly onRenewal?: (error: unknown) => void;
}

/** The contents of the files that options name, and what was made of them. */
export interface LoadedTls {
  readonly options: TlsOptions;
  readonly contents: readonly Buffer[];
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
  loaded: LoadedTls,
  { onConnection, onRefused }: SecureConnections,
): Promise<BoundServer> {
  const { options } = loaded;
  const server = createSecureServer(loaded, address);
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

/** Reads the files. @throws {@link TransportError} ERR_TLS */
export function loadTls(options: TlsOptions): LoadedTls {
  return { options, contents: filesOf(options).map(readPem) };
}

/** Puts the files in force on these ports when they change. */
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
    ...(ciphers === undefined ? {} : { ciphers }),
  };
}

/** Certificate, key, and whose certificates of peers are taken. */
function filesOf({ certFile, keyFile, caFile }: TlsOptions): string[] {
  return [certFile, keyFile ?? certFile, ...(caFile === undefined ? [] : [caFile])];
}

function unusableFiles({ certFile }: TlsOptions, cause: unknown): TransportError {
  const message = `the TLS files or ciphers cannot be used: ${certFile}`;
  return new TransportError('ERR_TLS', message, { cause });
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
