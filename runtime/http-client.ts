/**
 * HTTP client for listed services. It resolves a name once and connects to the checked address. It
 * follows no redirects, uses no proxy, and limits the time and the size of the answer [THREATS
 * B-08].
 */

import { readFileSync } from 'node:fs';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import http from 'node:http';
import https from 'node:https';
import { isIP } from 'node:net';
import {
  type AllowedEndpoint,
  type EndpointOptions,
  hostOf,
  originOf,
} from './allowed-endpoints.ts';
import { codeOf } from './system.ts';
import { inTime, linkSignals, timeLimit } from './time-limit.ts';

/** An outgoing request. */
export interface OutgoingRequest {
  readonly method: 'DELETE' | 'GET' | 'HEAD' | 'PATCH' | 'POST' | 'PUT';
  /** URL, sent exactly as written. */
  readonly url: string;
  /** Headers, with names in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Body of `PATCH`, `POST` and `PUT`. It is JSON, unless `headers` contains `content-type`. */
  readonly body?: string;
  /** Maximum size of the answer, in bytes. The rest is discarded. */
  readonly maxAnswerBytes?: number;
}

/** Result of a request. */
export type HttpResult =
  | {
      readonly kind: 'answer';
      readonly status: number;
      readonly headers: IncomingHttpHeaders;
      readonly body: string;
    }
  /** No answer arrived, or not in time. The request may or may not have arrived. */
  | { readonly kind: 'unreachable'; readonly reason: string }
  /** The request was not sent, because it is not permitted. Repeating it has the same result. */
  | { readonly kind: 'forbidden'; readonly reason: string };

/** Sends a request. Never throws. The signal cancels it. */
export type HttpClient = (request: OutgoingRequest, signal: AbortSignal) => Promise<HttpResult>;

export interface HttpClientOptions {
  readonly endpoints: Pick<ReadonlyMap<string, AllowedEndpoint>, 'get'>;
  /** Option that lists the endpoints, for messages. Default: `handles: endpoints`. */
  readonly listedBy?: string;
  /** Timeout of the whole exchange, in milliseconds. */
  readonly timeoutMs: number;
  /**
   * Returns all addresses of a host.
   * @throws Error if there is none
   */
  readonly resolve: (host: string) => Promise<readonly string[]>;
  /**
   * Whether a request may arrive twice. If so, connections are reused. If the service closes a
   * connection while it is being reused, it is unknown whether the request arrived. Default:
   * `false`.
   */
  readonly mayRepeat?: boolean;
}

const defaultAnswerBytes = 65_536;

/**
 * Maximum idle time of a reused connection, in milliseconds. Services keep connections open longer.
 */
const idleMs = 4_000;
/** Maximum number of idle connections for each address of a service. */
const maxIdle = 4;

/** Agents that supply connections. `false` opens a new connection for each request. */
interface Agents {
  readonly http: http.Agent | false;
  readonly https: https.Agent | false;
}

function createAgents(mayRepeat: boolean): Agents {
  if (!mayRepeat) return { http: false, https: false };
  const options = { keepAlive: true, maxFreeSockets: maxIdle, timeout: idleMs };
  return { http: new http.Agent(options), https: new https.Agent(options) };
}

export function createHttpClient({
  endpoints,
  listedBy = 'handles: endpoints',
  timeoutMs,
  resolve,
  mayRepeat = false,
}: HttpClientOptions): HttpClient {
  const agents = createAgents(mayRepeat);
  return async (request, signal) => {
    const endpoint = endpoints.get(originOf(request.url));
    if (endpoint === undefined) {
      const reason = `${originOf(request.url)} is not listed under ${listedBy}`;
      return { kind: 'forbidden', reason };
    }
    const host = hostOf(request.url);
    const limit = timeLimit(timeoutMs);
    const ends = linkSignals(limit.signal, signal);
    try {
      // A lookup cannot be cancelled.
      const addresses = isIP(host) === 0 ? await inTime(resolve(host), ends.signal) : [host];
      if (addresses === undefined) throw ends.signal.reason;
      const closed = addresses.find((address) => !endpoint.permits(address));
      if (closed !== undefined) {
        const reason = `${host} resolves to ${closed}, which its endpoint does not permit`;
        return { kind: 'forbidden', reason };
      }
      const [address] = addresses;
      if (address === undefined) return { kind: 'unreachable', reason: `${host} has no address` };
      return await sendRequest(request, { address, host, endpoint, agents }, ends.signal);
    } catch (error) {
      const reason = ends.signal.aborted
        ? `no answer within ${timeoutMs} ms`
        : connectionErrorText(error);
      return { kind: 'unreachable', reason };
    } finally {
      ends.unlink();
      limit.clear();
    }
  };
}

interface ResolvedTarget {
  readonly address: string;
  readonly host: string;
  readonly endpoint: AllowedEndpoint;
  readonly agents: Agents;
}

/**
 * Sends the request over an idle connection, or over a new one if the service has just closed that.
 */
async function sendRequest(
  request: OutgoingRequest,
  place: ResolvedTarget,
  signal: AbortSignal,
): Promise<HttpResult> {
  try {
    return await sendOnce(request, place, signal);
  } catch (error) {
    if (!(error instanceof ClosedConnectionError)) throw error;
    return sendRequest(request, place, signal);
  }
}

/** Error of an idle connection that its service closed before it answered. */
class ClosedConnectionError extends Error {}

const closedCodes: ReadonlySet<string | undefined> = new Set(['ECONNRESET', 'EPIPE']);

function sendOnce(
  request: OutgoingRequest,
  place: ResolvedTarget,
  signal: AbortSignal,
): Promise<HttpResult> {
  const { method, url, headers, body = '' } = request;
  const hasBody = method === 'PATCH' || method === 'POST' || method === 'PUT';
  const { port, protocol } = new URL(url);
  // The URL is handled as text, because parsing and formatting it may change what its signature
  // covers.
  const [, , authority = ''] = url.split('/');
  const path = url.slice(url.indexOf('//') + 2 + authority.length) || '/';
  const options = {
    method,
    path,
    host: place.address,
    ...(port === '' ? {} : { port }),
    headers: {
      host: authority,
      accept: 'application/json',
      'user-agent': 'saltbridge',
      ...(hasBody ? { 'content-type': 'application/json' } : {}),
      ...headers,
      ...(hasBody ? { 'content-length': Buffer.byteLength(body) } : {}),
    },
    signal,
  };
  return new Promise((resolve, reject) => {
    const outgoing =
      protocol === 'https:'
        ? https.request({ ...options, agent: place.agents.https, ...tlsOptions(place) })
        : http.request({ ...options, agent: place.agents.http });
    outgoing.once('response', (response) => {
      readAnswer(response, request.maxAnswerBytes ?? defaultAnswerBytes).then(resolve, reject);
    });
    outgoing.once('error', (error) => {
      const isClosed = outgoing.reusedSocket && closedCodes.has(codeOf(error));
      reject(isClosed ? new ClosedConnectionError('closed', { cause: error }) : error);
    });
    outgoing.end(hasBody ? body : undefined);
  });
}

/**
 * Returns the TLS options. The certificate must be valid for the name, whatever address it resolves
 * to.
 */
function tlsOptions({ host, endpoint: { ca } }: ResolvedTarget): {
  readonly servername: string;
  readonly ca?: Buffer;
} {
  const servername = isIP(host) === 0 ? host : '';
  return ca === undefined ? { servername } : { servername, ca };
}

async function readAnswer(response: IncomingMessage, maxBytes: number): Promise<HttpResult> {
  const parts: Buffer[] = [];
  let left = maxBytes;
  for await (const part of response) {
    const bytes: Buffer = part;
    parts.push(bytes.subarray(0, left));
    left -= bytes.length;
    // Leaving the loop destroys the connection.
    if (left <= 0) break;
  }
  const { statusCode: status = 0, headers } = response;
  return { kind: 'answer', status, headers, body: Buffer.concat(parts).toString('utf8') };
}

/**
 * Returns a text with the error code only, because the text of some errors contains the address,
 * which is a secret.
 */
function connectionErrorText(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'ERR_UNKNOWN';
  return `the service cannot be reached (${code})`;
}

/** A service in a section of the configuration. */
export interface ConfiguredEndpoint {
  readonly url: string;
  readonly addresses?: readonly string[];
  /** Path of a PEM file. */
  readonly ca_file?: string;
}

/**
 * Reads the CA file of an endpoint.
 * @throws Error if it cannot be read
 */
export function readEndpoint({
  url,
  addresses,
  ca_file: file,
}: ConfiguredEndpoint): EndpointOptions {
  return {
    url,
    ...(addresses === undefined ? {} : { addresses }),
    ...(file === undefined ? {} : { ca: readFileSync(file) }),
  };
}
