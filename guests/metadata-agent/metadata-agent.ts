/**
 * A metadata agent beside networks: finds out which instance asks, by its network and address, and
 * asks Nova and the master for it. It listens on a Unix socket behind the networks' own proxies, or
 * in the networks themselves.
 */

import { createHmac } from 'node:crypto';
import { rm } from 'node:fs/promises';
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import https from 'node:https';
import { isIP, type Server, type Socket } from 'node:net';
import type { Logger } from 'pino';
import { listenPrivately, RepeatedWarnings } from '#runtime';
import { checkSecret } from '../secret-file.ts';
import { type AgentInstance, agentHeader, signAgentRequest } from './agent-credentials.ts';
import {
  type AgentNetwork,
  type ConnectionOrigin,
  listenInNetwork,
  plainAddress,
} from './network-listeners.ts';

/** Who has an address in one of some networks, if that is exactly one instance. */
export type FindInstance = (
  networks: readonly string[],
  address: string,
) => Promise<AgentInstance | undefined>;

/** Networks that a router joins, whose addresses differ; none for an id that is no router's. */
export type FindNetworks = (router: string) => Promise<readonly string[]>;

/** A service that the agent asks. */
interface AgentUpstream {
  /** Without a slash at the end. */
  readonly url: string;
  /** The authorities that sign its certificate, PEM. Default: those of Node. */
  readonly ca?: Buffer;
}

export interface MetadataAgentOptions {
  /** Path of the Unix socket for proxies. Default: none. */
  readonly socket?: string | undefined;
  /** Where it listens itself. Default: nowhere. */
  readonly networks?: readonly AgentNetwork[] | undefined;
  readonly nova: AgentUpstream & {
    /** `metadata_proxy_shared_secret`. */
    readonly secret: string;
  };
  readonly master: AgentUpstream & { readonly name: string; readonly secret: string };
  readonly find: FindInstance;
  /** Default: no router is known. */
  readonly networksOf?: FindNetworks | undefined;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly log: Pick<Logger, 'info' | 'warn'>;
}

/** A running agent. */
export interface MetadataAgent {
  close(): Promise<void>;
}

/** Headers by which proxies tell the network. */
const networkHeaders: ReadonlySet<string> = new Set(['x-neutron-network-id', 'x-ovn-network-id']);
/** By which those in the namespaces of routers tell the router in its place. */
const routerHeader = 'x-neutron-router-id';
const forwardedHeader = 'x-forwarded-for';
/** Below it the master answers what it answers below `/bridge/v1/guest`. */
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
/** Of an answer; user-data has 64 KiB, files more. */
const maxAnswerBytes = 33_554_432;
/** Longer than a read of the data space waits. */
const timeoutMs = 31_000;
const maxConnections = 1_024;

/** A request that is answered with a status alone. */
class AgentRefusal extends Error {
  readonly status: number;

  constructor(status: number, reason: string) {
    super(reason);
    this.status = status;
  }
}

/** Starts one. @throws TypeError for an empty secret, or one that can be guessed; the system's error */
export async function startMetadataAgent(options: MetadataAgentOptions): Promise<MetadataAgent> {
  const { socket, networks = [], nova, master, log } = options;
  // Nova takes an empty secret, and with it everybody's word.
  if (nova.secret === '') throw new TypeError("Nova's secret is empty");
  checkSecret(master.secret);
  const warnings = new RepeatedWarnings(log, options.now);
  /** Of connections that come from a network without a proxy. */
  const origins = new WeakMap<Socket, ConnectionOrigin>();
  const server = http.createServer(
    { requestTimeout: 10_000, headersTimeout: 10_000, maxHeaderSize: 16_384 },
    (request, response) => {
      answer(request, response, { ...options, origin: origins.get(request.socket) }).catch(
        (error: unknown) => {
          const status = error instanceof AgentRefusal ? error.status : 502;
          const reason = error instanceof Error ? error.message : 'unknown';
          warnings.warn(String(status), { status, reason }, 'metadata request refused');
          if (response.headersSent) response.destroy();
          else response.writeHead(status, { 'content-length': 0, connection: 'close' }).end();
        },
      );
    },
  );
  server.maxConnections = maxConnections;
  // Whoever can connect can say which network it is.
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
  log.info({ socket, networks: networks.length }, 'metadata agent started');
  return { close };
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  options: MetadataAgentOptions & { readonly origin: ConnectionOrigin | undefined },
): Promise<void> {
  // Behind no proxy, what a request says of its origin is its guest's.
  const origin = options.origin ?? originOfRequest(request.rawHeaders);
  const body = await readBody(request);
  const { address } = origin;
  const networks =
    'router' in origin ? ((await options.networksOf?.(origin.router)) ?? []) : origin.networks;
  const instance = await options.find(networks, address);
  if (instance === undefined) {
    const where = 'router' in origin ? `behind router ${origin.router}` : `in ${networks}`;
    throw new AgentRefusal(404, `nobody has ${address} ${where}`);
  }
  const { method = 'GET', url = '/' } = request;
  if (!url.startsWith('/') || url.includes('/../')) throw new AgentRefusal(400, 'no path');
  const own = url.startsWith(ownPrefix) ? url.slice(ownPrefix.length) : undefined;
  if (own === undefined) {
    const { nova } = options;
    const signature = createHmac('sha256', nova.secret).update(instance.instance).digest('hex');
    const headers = {
      'x-forwarded-for': address,
      'x-instance-id': instance.instance,
      'x-tenant-id': instance.project,
      'x-instance-id-signature': signature,
    };
    return forward(response, { upstream: nova, method, path: url, headers, body });
  }
  const [name = ''] = own.split('?');
  if (!ownPaths.has(name)) throw new AgentRefusal(404, 'no such path of the bridge');
  const { master, now } = options;
  const path = `/bridge/v1/guest/${own}`;
  const signed = signAgentRequest(master, instance, { method, path, body }, now());
  const headers = { [agentHeader]: signed, 'content-type': 'text/plain' };
  return forward(response, { upstream: master, method, path, headers, body });
}

/** A request through the proxy of a router, which knows no network. */
interface RouterOrigin {
  readonly router: string;
  readonly address: string;
}

/**
 * The network or router, and the address, that a request comes from. A header that is there twice,
 * or has a list, was sent by a guest as well; so was one of both kinds.
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
    throw new AgentRefusal(400, 'a header of the proxy is there twice');
  }
  const address = plainAddress(given);
  const { id, isRouter } = place;
  if (!/^[A-Za-z0-9-]{1,64}$/.test(id) || isIP(address) === 0) {
    throw new AgentRefusal(400, 'the proxy names no network and no router, or no address');
  }
  return isRouter ? { router: id, address } : { networks: [id], address };
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of request) {
    const bytes: Buffer = part;
    length += bytes.length;
    if (length > maxBodyBytes) throw new AgentRefusal(413, 'the body is too large');
    parts.push(bytes);
  }
  return Buffer.concat(parts);
}

interface Forwarded {
  readonly upstream: AgentUpstream;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** Headers of an answer that guests get. */
const answerHeaders = ['content-type', 'retry-after', 'x-saltbridge-version'] as const;

/** Sends a request with these headers and no other ones, and passes the answer on. */
function forward(
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
  return new Promise((resolve, reject) => {
    const outgoing = request(`${upstream.url}${path}`, options, (incoming) => {
      passOn(incoming, response).then(resolve, reject);
    });
    outgoing.once('timeout', () => outgoing.destroy(new AgentRefusal(504, 'no answer in time')));
    outgoing.once('error', (error) => {
      reject(error instanceof AgentRefusal ? error : new AgentRefusal(503, error.message));
    });
    response.once('close', () => outgoing.destroy());
    outgoing.end(body);
  });
}

async function passOn(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of incoming) {
    const bytes: Buffer = part;
    length += bytes.length;
    if (length > maxAnswerBytes) throw new AgentRefusal(502, 'the answer is too large');
    parts.push(bytes);
  }
  const headers = Object.fromEntries(
    answerHeaders.flatMap((name) => {
      const value = incoming.headers[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
  response.writeHead(incoming.statusCode ?? 502, { ...headers, 'content-length': length });
  response.end(Buffer.concat(parts));
}

/**
 * The MAC address that a link-local IPv6 address was made from (EUI-64); `undefined`: it was made
 * otherwise.
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
