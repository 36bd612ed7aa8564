/**
 * One request to a listed service: resolved once, sent to the address that was checked, never
 * redirected, no proxy, bounded in time and in what is read of the answer [THREATS B-08].
 */
import http, { type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import https from 'node:https';
import { isIP } from 'node:net';
import { hostOf, type ListedEndpoint, originOf } from './endpoints.ts';

/** A request as a transport wants it. */
export interface OutgoingRequest {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT';
  /** Sent as it is written. */
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** JSON, made by us; of `POST` and `PUT`. */
  readonly body?: string;
  /** Bytes of the answer that are read; more is cut off. */
  readonly maxAnswerBytes?: number;
}

/** What became of a request. */
export type Exchange =
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
export type Ask = (request: OutgoingRequest, signal: AbortSignal) => Promise<Exchange>;

/** What {@link createAsk} needs. */
export interface AskOptions {
  readonly endpoints: ReadonlyMap<string, ListedEndpoint>;
  /** Milliseconds for the whole exchange. */
  readonly timeoutMs: number;
  /** All addresses of a host. @throws Error when there is none */
  readonly resolve: (host: string) => Promise<readonly string[]>;
}

const usualAnswerBytes = 65_536;

export function createAsk({ endpoints, timeoutMs, resolve }: AskOptions): Ask {
  return async (request, signal) => {
    const endpoint = endpoints.get(originOf(request.url));
    if (endpoint === undefined) {
      const reason = `${originOf(request.url)} is not listed under handles: endpoints`;
      return { kind: 'forbidden', reason };
    }
    const host = hostOf(request.url);
    const ends = new AbortController();
    const end = (): void => ends.abort();
    // Not AbortSignal.any: Node 20 may collect what it is made of before that fires.
    const timer = setTimeout(end, timeoutMs);
    signal.addEventListener('abort', end, { once: true });
    if (signal.aborted) end();
    try {
      const addresses = isIP(host) === 0 ? await orAborted(resolve(host), ends.signal) : [host];
      // protection: any-signal-address
      const closed = addresses.find((address) => !endpoint.permits(address));
      if (closed !== undefined) {
        const reason = `${host} leads to ${closed}, which its endpoint does not list`;
        return { kind: 'forbidden', reason };
      }
      const [address] = addresses;
      if (address === undefined) return { kind: 'unreachable', reason: `${host} has no address` };
      return await send(request, { address, host, endpoint }, ends.signal);
    } catch (error) {
      const reason = ends.signal.aborted ? `no answer within ${timeoutMs} ms` : reasonOf(error);
      return { kind: 'unreachable', reason };
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
    }
  };
}

/** Waits no longer than until the signal; looking a name up cannot be ended. */
async function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  return new Promise((resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    work.then(resolve, reject);
  });
}

interface Place {
  readonly address: string;
  readonly host: string;
  readonly endpoint: ListedEndpoint;
}

function send(request: OutgoingRequest, place: Place, signal: AbortSignal): Promise<Exchange> {
  const { method, url, headers, body = '' } = request;
  const hasBody = method === 'POST' || method === 'PUT';
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
      ...headers,
      ...(hasBody
        ? { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
        : {}),
    },
    agent: false,
    signal,
  };
  return new Promise((resolve, reject) => {
    const outgoing =
      protocol === 'https:'
        ? https.request({ ...options, ...tlsOptions(place) })
        : http.request(options);
    outgoing.once('response', (response) => {
      read(response, request.maxAnswerBytes ?? usualAnswerBytes).then(resolve, reject);
    });
    outgoing.once('error', reject);
    outgoing.end(hasBody ? body : undefined);
  });
}

/** The certificate is that of the name, whatever address it led to. */
function tlsOptions({ host, endpoint: { ca } }: Place): {
  readonly servername: string;
  readonly ca?: Buffer;
} {
  const servername = isIP(host) === 0 ? host : '';
  return ca === undefined ? { servername } : { servername, ca };
}

async function read(response: IncomingMessage, maxBytes: number): Promise<Exchange> {
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
function reasonOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'ERR_UNKNOWN';
  return `the service cannot be reached (${code})`;
}
