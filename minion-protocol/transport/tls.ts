/**
 * TLS on a port, configured with the names of Salt's `ssl` option [WIRE 4.5;
 * salt/transport/base.py].
 */
import { readFileSync } from 'node:fs';
import {
  createServer,
  type SecureContextOptions,
  Server as SecureServer,
  type TlsOptions as ServerOptions,
  type TLSSocket,
} from 'node:tls';
import { FileReloader } from '#runtime';
import { type BoundServer, bind, type ListenOptions } from './listening.ts';
import {
  handshakeOptions,
  type SecureConnections,
  startHandshakesInTurns,
} from './tls-handshakes.ts';
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

/** Contents of the files that the options name. */
export interface LoadedTls {
  readonly options: TlsOptions;
  readonly contents: readonly Buffer[];
}

/**
 * Binds a port that uses TLS from the first byte. Its handshakes start in turns.
 * @throws {@link TransportError} ERR_TLS for files that cannot be read or used, ERR_LISTEN
 */
export function listenSecurely(
  address: ListenOptions,
  loaded: LoadedTls,
  connections: SecureConnections,
): Promise<BoundServer> {
  const { options } = loaded;
  const server = createSecureServer(loaded, address);
  server.on('secureConnection', (stream: TLSSocket) => {
    if (!hasFalseCertificate(stream, options)) return;
    connections.onRefused('tls-certificate');
    stream.destroy();
  });
  startHandshakesInTurns(server, connections, options.onlyVersion);
  return bind(server, address);
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
    ...handshakeOptions,
    ...(ciphers === undefined ? {} : { ciphers }),
  };
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
