/**
 * HTTP client that sends requests only to the services in its list of allowed endpoints. It
 * resolves the host name once, checks the address and connects to exactly this address. It does not
 * follow redirects or use a proxy. It limits the duration of a request and the size of the answer
 * [THREATS B-08].
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
import { awaitResponse } from './await-response.ts';
import { codeOf } from './system.ts';
import { TextAssembly } from './text-assembly.ts';
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
  /**
   * Maximum size of the answer's body, in bytes. The part beyond it is discarded. Default: 65,536.
   */
  readonly maxAnswerBytes?: number;
}

/** Result of a request. */
export type HttpResult =
  | {
      readonly kind: 'answer';
      readonly status: number;
      readonly headers: IncomingHttpHeaders;
      readonly body: string;
      /** Whether the body has reached the maximum size. Its end may be missing. */
      readonly isCut?: boolean;
    }
  /**
   * The service could not be reached, did not answer before the timeout, or the request was
   * cancelled. The service may have received the request.
   */
  | { readonly kind: 'unreachable'; readonly reason: string }
  /**
   * The request was not sent, because it is not permitted. Sending it again has the same result.
   */
  | { readonly kind: 'forbidden'; readonly reason: string };

/** Sends a request. Never throws. Aborting the signal cancels the request. */
export type HttpClient = (request: OutgoingRequest, signal: AbortSignal) => Promise<HttpResult>;

export interface HttpClientOptions {
  readonly endpoints: Pick<ReadonlyMap<string, AllowedEndpoint>, 'get'>;
  /**
   * Name of the option that lists the endpoints, for error messages. Default: `handles: endpoints`.
   */
  readonly listedBy?: string;
  /** Timeout of the whole request including its answer, in milliseconds. */
  readonly timeoutMs: number;
  /**
   * Returns all addresses of a host.
   * @throws Error if the host has no address
   */
  readonly resolve: (host: string) => Promise<readonly string[]>;
  /**
   * Whether the service may receive a request twice. If `true`, connections are reused. If the
   * service closes a reused connection before it answers, the request is sent again. Default:
   * `false`.
   */
  readonly mayRepeat?: boolean;
}

const defaultAnswerBytes = 65_536;

/**
 * Maximum idle time of a reused connection, in milliseconds. Services usually close idle
 * connections later.
 */
const idleMs = 4_000;
/** Maximum number of idle connections for each address of a service. */
const maxIdle = 4;

/**
 * Agents that manage the connections. If an agent is `false`, each request opens a new connection.
 */
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
    const authority = authorityOf(request.url);
    if (authority === undefined) {
      const reason = 'the URL does not begin with a scheme, "://", and only a host and port';
      return { kind: 'forbidden', reason };
    }
    const host = hostOf(request.url);
    const limit = timeLimit(timeoutMs);
    const ends = linkSignals(limit.signal, signal);
    try {
      // A DNS lookup cannot be cancelled, so its result is ignored after the timeout.
      const addresses = isIP(host) === 0 ? await inTime(resolve(host), ends.signal) : [host];
      if (addresses === undefined) throw ends.signal.reason;
      const closed = addresses.find((address) => !endpoint.permits(address));
      if (closed !== undefined) {
        const reason = `${host} resolves to ${closed}, which is outside the networks permitted for this endpoint`;
        return { kind: 'forbidden', reason };
      }
      const [address] = addresses;
      if (address === undefined)
        return { kind: 'unreachable', reason: `no address was found for ${host}` };
      return await sendRequest(
        request,
        { address, host, authority, endpoint, agents },
        ends.signal,
      );
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

/**
 * Returns the host and port in the text of a URL. Returns `undefined` if the text can be read as if
 * it had another host. Parsers of URLs accept, for example, user names, backslashes and missing
 * slashes.
 */
function authorityOf(url: string): string | undefined {
  const [, authority = ''] = /^https?:\/\/([^/?]+)/i.exec(url) ?? [];
  const { host, protocol } = new URL(url);
  const usualPort = protocol === 'https:' ? ':443' : ':80';
  const isPlain = [host, `${host}${usualPort}`].includes(authority.toLowerCase());
  return isPlain ? authority : undefined;
}

interface ResolvedTarget {
  readonly address: string;
  readonly host: string;
  /** Host and port as written in the URL. */
  readonly authority: string;
  readonly endpoint: AllowedEndpoint;
  readonly agents: Agents;
}

/**
 * Sends the request over an idle connection. If the service has just closed that connection, sends
 * it over another one.
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

/** The service closed a reused connection before it answered. */
class ClosedConnectionError extends Error {}

const closedCodes: ReadonlySet<string | undefined> = new Set(['ECONNRESET', 'EPIPE']);

async function sendOnce(
  request: OutgoingRequest,
  place: ResolvedTarget,
  signal: AbortSignal,
): Promise<HttpResult> {
  const { method, url, headers, body = '' } = request;
  const hasBody = method === 'PATCH' || method === 'POST' || method === 'PUT';
  const { port, protocol } = new URL(url);
  // The path is cut from the text of the URL, because parsing and formatting the URL may change
  // characters that its signature covers.
  const { authority } = place;
  const rest = url.slice(`${protocol}//${authority}`.length);
  const path = rest.startsWith('/') ? rest : `/${rest}`;
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
  const outgoing =
    protocol === 'https:'
      ? https.request({ ...options, agent: place.agents.https, ...tlsOptions(place) })
      : http.request({ ...options, agent: place.agents.http });
  const awaited = awaitResponse(outgoing);
  outgoing.end(hasBody ? body : undefined);
  let response: IncomingMessage;
  try {
    response = await awaited;
  } catch (error) {
    const isClosed = outgoing.reusedSocket && closedCodes.has(codeOf(error));
    throw isClosed ? new ClosedConnectionError('closed', { cause: error }) : error;
  }
  return readAnswer(response, request.maxAnswerBytes ?? defaultAnswerBytes);
}

/**
 * Returns the TLS options. The certificate must be valid for the host name, not for the address.
 */
function tlsOptions({ host, endpoint: { ca } }: ResolvedTarget): {
  readonly servername: string;
  readonly ca?: Buffer;
} {
  const servername = isIP(host) === 0 ? host : '';
  return ca === undefined ? { servername } : { servername, ca };
}

async function readAnswer(response: IncomingMessage, maxBytes: number): Promise<HttpResult> {
  const text = new TextAssembly();
  let left = maxBytes;
  for await (const part of response) {
    const bytes: Buffer = part;
    text.take(bytes.subarray(0, left));
    left -= bytes.length;
    // Leaving the loop early destroys the connection.
    if (left <= 0) break;
  }
  const { statusCode: status = 0, headers } = response;
  const body = text.end();
  return { kind: 'answer', status, headers, body, ...(left <= 0 ? { isCut: true } : {}) };
}

/**
 * Returns a text that contains only the error code. The messages of some errors contain the URL,
 * which is a secret.
 */
function connectionErrorText(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'ERR_UNKNOWN';
  return `the service cannot be reached (${code})`;
}

/** A service as listed in a section of the configuration. */
export interface ConfiguredEndpoint {
  readonly url: string;
  readonly addresses?: readonly string[];
  /** Path of a PEM file. */
  readonly ca_file?: string;
}

/**
 * Reads the CA file of an endpoint.
 * @throws Error if the file cannot be read
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
