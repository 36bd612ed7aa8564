/** Connections to a master: over its local socket or its HTTP API. */

import {
  type Agent,
  type ClientRequest,
  type RequestOptions,
  request as requestHttp,
} from 'node:http';
import { request as requestHttps, Agent as SecureAgent } from 'node:https';
import { type CallerProof, createCallerProof } from '#master';
import { trimEnd } from '#runtime';

/** Address of a master on this host. */
export interface LocalMaster {
  /** Path of the master's local socket (`saltbridge.sock` in `sock_dir`). */
  readonly socketPath: string;
}

/**
 * Address and credentials of a master with an HTTP API (`rest_cherrypy:` or `saltbridge: api:`).
 */
export interface RemoteMaster {
  /**
   * Address of the API, for example `https://master:8000`, with `root_prefix` if there is one.
   * Plain `http:` is accepted for this host only.
   */
  readonly url: string | URL;
  /** Salt token from `logins.login`. It identifies the calling user. Default: none. */
  readonly token?: string;
  /** Trusted certificates in PEM. Default: those of the system. */
  readonly ca?: string | Uint8Array;
}

/** A connection to a master. */
export interface Connection {
  /** Name of the master in error messages. */
  readonly name: string;
  /** Starts a POST request. The caller writes its body and ends it. */
  readonly open: (path: string, signal?: AbortSignal) => ClientRequest;
  /** Returns the reason of a failed request and its remedy, for an error message. */
  readonly explain: (cause: NodeJS.ErrnoException) => string;
  /**
   * Creates a proof of the account under which this process runs. Default: calls contain no proof.
   */
  readonly prove?: () => Promise<CallerProof | undefined>;
  /**
   * Whether a stream fails with ERR_MASTER_STOPPED when the master shuts down. Default: `false`.
   */
  readonly failsOnClose?: boolean;
}

const jsonHeaders = { 'content-type': 'application/json' };

export function localConnection({ socketPath }: LocalMaster, agent?: Agent): Connection {
  return {
    name: socketPath,
    open: (path, signal) =>
      requestHttp({
        socketPath,
        path,
        ...(agent === undefined ? {} : { agent }),
        method: 'POST',
        headers: jsonHeaders,
        ...abortSignalOption(signal),
      }),
    explain: explainLocal,
    prove: () => createCallerProof(socketPath),
  };
}

/**
 * Creates a connection over HTTP.
 * @throws TypeError for an invalid address, or for an address without TLS that is not on this host
 */
export function remoteConnection({ url, token, ca }: RemoteMaster): Connection {
  const { protocol, hostname, port, pathname, host } = new URL(url);
  const isPlain = protocol === 'http:' && isThisHost(hostname);
  if (protocol !== 'https:' && !isPlain)
    throw new TypeError(
      'the address must begin with https:; http: is allowed for loopback addresses only',
    );
  const prefix = trimEnd(pathname, '/');
  const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const common: RequestOptions = {
    host: hostname.replace(/^\[|\]$/g, ''),
    method: 'POST',
    headers: { ...jsonHeaders, ...authorization },
    ...(port === '' ? {} : { port: Number(port) }),
  };
  // Reuse connections, because a TLS handshake costs more than a call.
  const agent = isPlain
    ? undefined
    : new SecureAgent({
        keepAlive: true,
        minVersion: 'TLSv1.2',
        ...(ca === undefined ? {} : { ca: typeof ca === 'string' ? ca : Buffer.from(ca) }),
      });
  const request = isPlain ? requestHttp : requestHttps;
  return {
    name: `${protocol}//${host}${prefix}`,
    open: (path, signal) =>
      request({ ...common, agent, path: `${prefix}${path}`, ...abortSignalOption(signal) }),
    explain: explainRemote,
  };
}

function isThisHost(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(?:\.\d{1,3}){3}$/.test(hostname);
}

function abortSignalOption(signal: AbortSignal | undefined): { readonly signal?: AbortSignal } {
  return signal === undefined ? {} : { signal };
}

function explainLocal(cause: NodeJS.ErrnoException): string {
  if (cause.code === 'ENOENT' || cause.code === 'ECONNREFUSED') {
    return 'no master is listening on this socket; start one with: saltbridge master';
  }
  if (cause.code === 'EACCES')
    return 'permission denied; run this command as the user of the master';
  return `cannot reach the master (${cause.code ?? cause.message})`;
}

function explainRemote(cause: NodeJS.ErrnoException): string {
  if (cause.code === 'ECONNREFUSED') {
    return 'connection refused; check that the master is running, and that saltbridge: api: port is set';
  }
  return `cannot reach the master (${cause.code ?? cause.message})`;
}
