/**
 * Metadata agent of networks. It identifies the sender of a request by network and address, and
 * forwards the request to Nova or to the master. It listens on a Unix socket for the proxies of
 * networks, or in the networks themselves.
 */

import { createHmac } from 'node:crypto';
import { rm } from 'node:fs/promises';
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import https from 'node:https';
import { isIP, type Server, type Socket } from 'node:net';
import { finished } from 'node:stream/promises';
import type { Logger } from 'pino';
import {
  awaitResponse,
  Budget,
  FairSlots,
  LimitExceeded,
  listenPrivately,
  RepeatedWarnings,
  RequestAdmission,
  readBlocks,
  readStream,
} from '#runtime';
import { guestLimits } from '../limits.ts';
import { checkSecret } from '../secret-file.ts';
import { type AgentInstance, agentHeader, signAgentRequest } from './agent-credentials.ts';
import {
  type AgentNetwork,
  type ConnectionOrigin,
  listenInNetwork,
  plainAddress,
} from './network-listeners.ts';

/**
 * Returns the instance that has an address in one of the networks. Returns `undefined` if none or
 * several have it.
 */
export type FindInstance = (
  networks: readonly string[],
  address: string,
) => Promise<AgentInstance | undefined>;

/**
 * Returns the networks that a router connects. No address occurs in two of these networks. Returns
 * an empty list if no router has this id.
 */
export type FindNetworks = (router: string) => Promise<readonly string[]>;

/** Service to which the agent forwards requests. */
interface AgentUpstream {
  /** URL of the service, without a slash at its end. */
  readonly url: string;
  /** Certificate authorities in PEM. Default: those of Node.js. */
  readonly ca?: Buffer;
}

export interface MetadataAgentOptions {
  /** Path of the Unix socket for proxies. Default: none. */
  readonly socket?: string | undefined;
  /** Networks in which the agent itself listens. Default: none. */
  readonly networks?: readonly AgentNetwork[] | undefined;
  readonly nova: AgentUpstream & {
    /**
     * Secret with which the agent signs instance ids for Nova: the value of Nova's option
     * `metadata_proxy_shared_secret`.
     */
    readonly secret: string;
  };
  readonly master: AgentUpstream & { readonly name: string; readonly secret: string };
  readonly find: FindInstance;
  /** Returns the networks of a router. Default: none; requests through routers are rejected. */
  readonly networksOf?: FindNetworks | undefined;
  /** Returns the current time, in milliseconds since 1970. */
  readonly now: () => number;
  readonly log: Pick<Logger, 'info' | 'warn'>;
}

/** Running metadata agent. */
export interface MetadataAgent {
  close(): Promise<void>;
}

/** Headers in which proxies name the network. */
const networkHeaders: ReadonlySet<string> = new Set(['x-neutron-network-id', 'x-ovn-network-id']);
/** Header in which proxies in router namespaces name the router instead of the network. */
const routerHeader = 'x-neutron-router-id';
const forwardedHeader = 'x-forwarded-for';
/**
 * Path prefix of the requests that are forwarded to the master. At the master, their paths begin
 * with `/bridge/v1/guest` instead.
 */
const ownPrefix = '/saltbridge/v1/';
const ownPaths: ReadonlySet<string> = new Set([
  'data',
  'enroll/claim',
  'enroll/failure',
  'peers',
  'saltbridge-data',
  'signals',
  'user-data',
]);
const maxBodyBytes = 131_072;
/** Maximum size of a response, in bytes. User-data has up to 64 KiB, but files can be larger. */
const maxAnswerBytes = 33_554_432;
/**
 * Timeout of a forwarded request, in milliseconds. It is longer than the maximum wait of a read
 * from a data space.
 */
const timeoutMs = 31_000;
/**
 * Time in which the sender must read a part of its response, in milliseconds. Until it has read the
 * whole response, the request counts towards the limits of the instance and of the project.
 */
const readTimeoutMs = 30_000;
/** Maximum number of connections. Further connections are closed at once. */
const maxConnections = 4_096;

/** Error for a request that is answered with a status and an empty body. */
class AgentRefusal extends Error {
  readonly status: number;

  constructor(status: number, reason: string) {
    super(reason);
    this.status = status;
  }
}

/**
 * Starts a metadata agent.
 * @throws TypeError for an empty or too short secret; errors of the operating system
 */
export async function startMetadataAgent(options: MetadataAgentOptions): Promise<MetadataAgent> {
  const { socket, networks = [], nova, master, log } = options;
  // Requests to Nova are signed with this secret. If it were empty, any client could sign them.
  if (nova.secret === '')
    throw new TypeError("the file with Nova's metadata proxy secret is empty");
  checkSecret(master.secret);
  const warnings = new RepeatedWarnings(log, options.now);
  const slots = new FairSlots(guestLimits.agentRequests);
  const projects = new Budget(guestLimits.agentProjectRequests);
  /** OpenStack network and client address of each connection that does not come from a proxy. */
  const origins = new WeakMap<Socket, ConnectionOrigin>();
  const server = http.createServer(
    { requestTimeout: 10_000, headersTimeout: 10_000, maxHeaderSize: 16_384 },
    (request, response) => {
      const origin = origins.get(request.socket);
      answer(request, response, { ...options, slots, projects, origin }).catch((error: unknown) => {
        const status = statusOfError(error);
        const reason = error instanceof Error ? error.message : 'unknown';
        warnings.warn(
          String(status),
          { status, reason },
          'rejected a metadata request of an instance',
        );
        if (response.headersSent) response.destroy();
        else response.writeHead(status, { 'content-length': 0, connection: 'close' }).end();
      });
    },
  );
  server.maxConnections = maxConnections;
  new RequestAdmission().protect(server);
  // Clients of this socket can name any network, so only privileged processes may connect.
  if (socket !== undefined) await listenPrivately(server, socket);
  const listeners: Server[] = [];
  const close = async (): Promise<void> => {
    if (socket !== undefined) await rm(socket, { force: true });
    const closed = listeners.map((it) => new Promise((resolve) => it.close(resolve)));
    closed.push(new Promise((resolve) => server.close(resolve)));
    server.closeAllConnections();
    await Promise.all(closed);
  };
  try {
    for (const network of networks) {
      const opened = await listenInNetwork(network, network.port, (connection, origin) => {
        origins.set(connection, origin);
        server.emit('connection', connection);
      });
      listeners.push(...opened);
    }
  } catch (error) {
    await close();
    throw error;
  }
  log.info({ socket, networks: networks.length }, 'the metadata agent accepts requests of guests');
  return { close };
}

function statusOfError(error: unknown): number {
  if (error instanceof LimitExceeded) return 429;
  return error instanceof AgentRefusal ? error.status : 502;
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  options: MetadataAgentOptions & {
    readonly slots: FairSlots;
    readonly projects: Budget;
    readonly origin: ConnectionOrigin | undefined;
  },
): Promise<void> {
  // Without a proxy, ignore headers that name an origin, because the guest itself sent them.
  const origin = options.origin ?? originOfRequest(request.rawHeaders);
  const target = targetOf(request.url ?? '/');
  const { address } = origin;
  const networks =
    'router' in origin ? ((await options.networksOf?.(origin.router)) ?? []) : origin.networks;
  const instance = await options.find(networks, address);
  if (instance === undefined) {
    const where = 'router' in origin ? `behind router ${origin.router}` : `in ${networks}`;
    throw new AgentRefusal(404, `no instance has the address ${address} ${where}`);
  }
  // Read the body only for a known instance, and only within its limit of concurrent requests.
  if (!options.projects.tryTake(instance.project))
    throw new AgentRefusal(429, 'too many requests of the instances of this project');
  try {
    await options.slots.run(instance.instance, async () => {
      const body = await readBody(request);
      await forwardFor(instance, {
        response,
        method: request.method ?? 'GET',
        target,
        body,
        address,
        options,
      });
    });
  } finally {
    options.projects.release(instance.project);
  }
}

/** Path of a forwarded request, and whether the master or Nova serves it. */
interface RequestTarget {
  readonly path: string;
  readonly isOwn: boolean;
}

/**
 * Returns the path of a forwarded request, and whether the master or Nova serves it.
 * @throws AgentRefusal for an unknown path
 */
function targetOf(url: string): RequestTarget {
  if (!url.startsWith('/') || url.includes('/../')) throw new AgentRefusal(400, 'invalid path');
  if (!url.startsWith(ownPrefix)) return { path: url, isOwn: false };
  const [name = '', ...query] = url.slice(ownPrefix.length).split('?');
  if (!ownPaths.has(name))
    throw new AgentRefusal(404, 'the path does not exist below /saltbridge/v1/');
  // Sign the escaped form of the query, because the HTTP client sends this form.
  const { search } = new URL(`http://master/?${query.join('?')}`);
  return { path: `/bridge/v1/guest/${name}${search}`, isOwn: true };
}

interface GuestRequest {
  readonly response: ServerResponse;
  readonly method: string;
  readonly target: RequestTarget;
  readonly body: Buffer;
  readonly address: string;
  readonly options: MetadataAgentOptions;
}

/** Forwards a request of an instance. */
function forwardFor(
  instance: AgentInstance,
  { response, method, target: { path, isOwn }, body, address, options }: GuestRequest,
): Promise<void> {
  if (!isOwn) {
    const { nova } = options;
    const signature = createHmac('sha256', nova.secret).update(instance.instance).digest('hex');
    const headers = {
      'x-forwarded-for': address,
      'x-instance-id': instance.instance,
      'x-tenant-id': instance.project,
      'x-instance-id-signature': signature,
    };
    return forward(response, { upstream: nova, method, path, headers, body });
  }
  const { master, now } = options;
  const signed = signAgentRequest(master, instance, { method, path, body }, now());
  const headers = { [agentHeader]: signed, 'content-type': 'text/plain' };
  return forward(response, { upstream: master, method, path, headers, body });
}

/**
 * Origin of a request that the proxy of a router has forwarded: the router, and the address of the
 * sender. The sender's network is unknown to such a proxy.
 */
interface RouterOrigin {
  readonly router: string;
  readonly address: string;
}

/**
 * Returns the guest's network or router, and its address, from the headers that the metadata proxy
 * adds. The guest may have sent such headers, too. Therefore rejects duplicate headers, lists in
 * headers, and requests with both a network and a router.
 */
function originOfRequest(rawHeaders: readonly string[]): ConnectionOrigin | RouterOrigin {
  const places: { readonly id: string; readonly isRouter: boolean }[] = [];
  const addresses: string[] = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]?.toLowerCase() ?? '';
    const value = rawHeaders[at + 1]?.trim() ?? '';
    const isRouter = name === routerHeader;
    if (isRouter || networkHeaders.has(name)) places.push({ id: value, isRouter });
    if (name === forwardedHeader) addresses.push(value);
  }
  const [place = { id: '', isRouter: false }, ...morePlaces] = places;
  const [given = '', ...moreAddresses] = addresses;
  if (morePlaces.length > 0 || moreAddresses.length > 0) {
    throw new AgentRefusal(400, 'the metadata proxy sent a header twice');
  }
  const address = plainAddress(given);
  const { id, isRouter } = place;
  if (!/^[A-Za-z0-9-]{1,64}$/.test(id) || isIP(address) === 0) {
    throw new AgentRefusal(
      400,
      'the metadata proxy sent no valid network or router id, or no valid address',
    );
  }
  return isRouter ? { router: id, address } : { networks: [id], address };
}

function readBody(request: IncomingMessage): Promise<Buffer> {
  const tooLarge = () => new AgentRefusal(413, 'the request body is too large');
  return readStream(request, maxBodyBytes, tooLarge);
}

interface Forwarded {
  readonly upstream: AgentUpstream;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** Headers that are copied from a response to the guest. */
const answerHeaders = ['content-type', 'retry-after', 'x-saltbridge-version'] as const;

/**
 * Forwards a request to Nova or the master, and sends the response to the guest. Headers that the
 * guest sent are not forwarded.
 */
async function forward(
  response: ServerResponse,
  { upstream, method, path, headers, body }: Forwarded,
): Promise<void> {
  const { request } = upstream.url.startsWith('https:') ? https : http;
  const more = body.length > 0 || method === 'POST' ? { 'content-length': body.length } : {};
  const options = {
    method,
    headers: { ...headers, ...more },
    agent: false,
    timeout: timeoutMs,
    ...(upstream.ca === undefined ? {} : { ca: upstream.ca }),
  } as const;
  const outgoing = request(`${upstream.url}${path}`, options);
  outgoing.once('timeout', () =>
    outgoing.destroy(
      new AgentRefusal(504, 'the service behind the metadata agent did not respond in time'),
    ),
  );
  response.once('close', () => outgoing.destroy());
  const awaited = awaitResponse(outgoing);
  outgoing.end(body);
  const incoming = await awaited.catch((cause: Error) => {
    throw cause instanceof AgentRefusal ? cause : new AgentRefusal(503, cause.message);
  });
  await passOn(incoming, response);
}

async function passOn(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  const tooLarge = () => new AgentRefusal(502, 'the response of the service is too large');
  const body = await readBlocks(incoming, maxAnswerBytes, tooLarge);
  const headers = Object.fromEntries(
    answerHeaders.flatMap((name) => {
      const value = incoming.headers[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
  response.writeHead(incoming.statusCode ?? 502, { ...headers, 'content-length': body.length });
  // A guest that does not read its response must neither keep it forever, nor without a limit.
  response.setTimeout(readTimeoutMs, () => response.destroy());
  const sent = finished(response);
  for (const block of body.blocks()) response.write(block);
  response.end();
  await sent.catch(() => {
    // The guest has disconnected, or did not read the response in time.
  });
}

/**
 * Returns the MAC address from which a link-local IPv6 address was derived (EUI-64). Returns
 * `undefined` if it was not derived from a MAC address.
 */
export function macOfLinkLocal(address: string): string | undefined {
  if (!/^fe80:/i.test(address)) return undefined;
  const { hostname } = new URL(`http://[${address}]/`);
  const groups = hostname.slice(1, -1).split('::').at(-1)?.split(':') ?? [];
  const bytes = Buffer.from(groups.map((it) => it.padStart(4, '0')).join(''), 'hex');
  if (bytes.length !== 8 || bytes[3] !== 0xff || bytes[4] !== 0xfe) return undefined;
  const mac = Buffer.concat([bytes.subarray(0, 3), bytes.subarray(5)]);
  mac[0] = (mac[0] ?? 0) ^ 0x02;
  return mac.toString('hex').replace(/(..)(?=.)/g, '$1:');
}
