/**
 * One request to a listed service: resolved once, sent to the address that was checked, never
 * redirected, no proxy, bounded in time and in what is read of the answer [THREATS B-08].
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

/** A request as a transport wants it. */
export interface OutgoingRequest {
  readonly method: 'DELETE' | 'GET' | 'HEAD' | 'PATCH' | 'POST' | 'PUT';
  /** Sent as it is written. */
  readonly url: string;
  /** By names in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Of `PATCH`, `POST` and `PUT`; JSON, unless `content-type` is among the headers. */
  readonly body?: string;
  /** Bytes of the answer that are read; more is cut off. */
  readonly maxAnswerBytes?: number;
}

/** What became of a request. */
export type HttpResult =
  | {
      readonly kind: 'answer';
      readonly status: number;
      readonly headers: IncomingHttpHeaders;
      readonly body: string;
    }
  /** Nobody answered, or not in time; whether the request arrived is not known. */
  | { readonly kind: 'unreachable'; readonly reason: string }
  /** It was not sent, and would not be the next time. */
  | { readonly kind: 'forbidden'; readonly reason: string };

/** Sends a request; never throws. The signal ends it early. */
export type HttpClient = (request: OutgoingRequest, signal: AbortSignal) => Promise<HttpResult>;

export interface HttpClientOptions {
  readonly endpoints: Pick<ReadonlyMap<string, AllowedEndpoint>, 'get'>;
  /** The option that lists them, for messages. Default `handles: endpoints`. */
  readonly listedBy?: string;
  /** Milliseconds for the whole exchange. */
  readonly timeoutMs: number;
  /** All addresses of a host. @throws Error when there is none */
  readonly resolve: (host: string) => Promise<readonly string[]>;
  /**
   * Whether a request may arrive twice. Connections are kept for the next request then: where the
   * service closes one as it is used again, nobody knows whether the request arrived. Default false.
   */
  readonly mayRepeat?: boolean;
}

const defaultAnswerBytes = 65_536;

/** Connections that nothing is asked over are kept so long, milliseconds; services keep them longer. */
const idleMs = 4_000;
/** So many for each address of a service. */
const maxIdle = 4;

/** How requests come by their connections; `false`: by a new one each. */
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
      // Looking a name up cannot be ended.
      const addresses = isIP(host) === 0 ? await inTime(resolve(host), ends.signal) : [host];
      if (addresses === undefined) throw ends.signal.reason;
      const closed = addresses.find((address) => !endpoint.permits(address));
      if (closed !== undefined) {
        const reason = `${host} leads to ${closed}, which its endpoint does not list`;
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

/** Over a kept connection, or a new one where the service has just closed that. */
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

/** A kept connection that its service closed before it answered anything. */
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
  // As text, because reading and writing an address again may change what its signature covers.
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

/** The certificate is that of the name, whatever address it led to. */
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

/** By its code alone: the text of some errors holds the address, which is a secret. */
function connectionErrorText(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'ERR_UNKNOWN';
  return `the service cannot be reached (${code})`;
}

/** A service as it stands in a section of the configuration. */
export interface ConfiguredEndpoint {
  readonly url: string;
  readonly addresses?: readonly string[];
  /** Path of a PEM file. */
  readonly ca_file?: string;
}

/** Reads its file, once. @throws Error where that cannot be read */
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
