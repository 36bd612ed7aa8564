/** Connections to a master: over its local socket or its HTTP API. */

import {
  type Agent,
  type ClientRequest,
  type RequestOptions,
  request as requestHttp,
} from 'node:http';
import { request as requestHttps, Agent as SecureAgent } from 'node:https';
import { type CallerProof, createCallerProof } from '#master';

/** A master on this host. */
export interface LocalMaster {
  /** Path of its local socket (`saltbridge.sock` in `sock_dir`). */
  readonly socketPath: string;
}

/** A master whose HTTP API is served (`rest_cherrypy:` or `saltbridge: api:`). */
export interface RemoteMaster {
  /**
   * Its address, `https://master:8000`, with `root_prefix` if there is one. Plain `http:` is taken
   * for this host alone.
   */
  readonly url: string | URL;
  /** Whose calls they are: Salt's token, from `logins.login`. Default: nobody's. */
  readonly token?: string;
  /** Certificates that are trusted, PEM. Default: those of the system. */
  readonly ca?: string | Uint8Array;
}

/** A way to a master. */
export interface Connection {
  /** For errors. */
  readonly name: string;
  /** A POST that its caller ends. */
  readonly open: (path: string, signal?: AbortSignal) => ClientRequest;
  /** Why it did not come through, and what to do. */
  readonly explain: (cause: NodeJS.ErrnoException) => string;
  /** Makes a proof which account calls. Default: it is not told. */
  readonly prove?: () => Promise<CallerProof | undefined>;
  /** Whether a stream that a closing master ends fails with ERR_MASTER_STOPPED. Default false. */
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

/** @throws TypeError for an address that is none, or over which tokens would go in the clear */
export function remoteConnection({ url, token, ca }: RemoteMaster): Connection {
  const { protocol, hostname, port, pathname, host } = new URL(url);
  const isPlain = protocol === 'http:' && isThisHost(hostname);
  if (protocol !== 'https:' && !isPlain) throw new TypeError('expected an address with https:');
  const prefix = pathname.replace(/\/+$/, '');
  const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const common: RequestOptions = {
    host: hostname.replace(/^\[|\]$/g, ''),
    method: 'POST',
    headers: { ...jsonHeaders, ...authorization },
    ...(port === '' ? {} : { port: Number(port) }),
  };
  // A handshake costs more than a call: connections are kept for the next one.
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
    return 'no master listens here; start one with: saltbridge master';
  }
  if (cause.code === 'EACCES') return "permission denied; run this as the master's user";
  return `cannot reach the master (${cause.code ?? cause.message})`;
}

function explainRemote(cause: NodeJS.ErrnoException): string {
  if (cause.code === 'ECONNREFUSED') {
    return 'nobody listens here; give the master a port under saltbridge: api:';
  }
  return `cannot reach the master (${cause.code ?? cause.message})`;
}
