/** What the HTTP API may be told. */
import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import type { HttpApiOptions, MasterConfig } from '#config';
import type { ExtensionHost, RpcTable } from '#master';
import type { SendPool } from '#runtime';
import { SaltApiError } from './errors.ts';
import type { StreamLimiter } from './event-stream.ts';

/** TLS: paths of PEM files. */
export interface SaltApiTls {
  readonly certificate: string;
  readonly key: string;
  /** Certificates between it and a root. Default: none. */
  readonly chain?: string;
  /** Milliseconds between two looks whether the files were renewed. Default 20,000. */
  readonly renewalIntervalMs?: number;
}

/** Routes that somebody adds to the server, below a path of their own. */
export interface SaltApiPlugin {
  /** For instance `/bridge/v1`; behind `rootPrefix`. */
  readonly prefix: string;
  /**
   * Methods that are called as `/rpc/<name>`, as at the local socket: those of users with the token of
   * whoever calls, others by who may do everything. Default: none.
   */
  readonly methods?: () => RpcTable;
  register(app: FastifyInstance, doors: SaltApiPluginContext): void;
}

/** What the server gives to routes of others. */
export interface SaltApiPluginContext {
  /** The master's token behind the session of a request, or that it shows itself. */
  readonly tokenOf: (request: FastifyRequest) => string | undefined;
  /** Fires when the server is closed: streams end. */
  readonly closing: AbortSignal;
  /** The places for event streams, in all and of one token. */
  readonly streams: Pick<StreamLimiter, 'tryEnter'>;
  /** What waits for the readers of all streams. */
  readonly sendPool: Pick<SendPool, 'open'>;
  /**
   * Takes a body of JSON, within the server's limits; `undefined`: there is none.
   * @throws SaltApiError ERR_HTTP_BODY, ERR_HTTP_BUSY
   */
  readonly readJson: (request: FastifyRequest, payload: IncomingMessage) => Promise<unknown>;
}

/** What a configuration says by names of files, and a program by {@link SaltApiOptions.tls}. */
type TlsNames = 'sslCrt' | 'sslKey' | 'sslChain';

/** What goes by the master's own configuration, wherever somebody logs in. */
type OfMaster = 'apiAcl';

/** What else a program may say. */
export interface SaltApiOptions extends Omit<HttpApiOptions, TlsNames | OfMaster> {
  /** Default: plain HTTP, which `listen` serves on loopback addresses only. */
  readonly tls?: SaltApiTls;
  /** Whether `listen` serves plain HTTP on any address, behind a proxy. Default false. */
  readonly disableSsl?: boolean;
  /** Names of clients that are served. Default: all. */
  readonly clients?: readonly string[];
  /** Seconds that runners have. Default 300. */
  readonly runnerTimeoutSeconds?: number;
  /** Milliseconds that a request may take to arrive, and its answer to be read any further. Default 30,000. */
  readonly requestTimeoutMs?: number;
  /** Names of what users log in by, for the status page's form. Default: they type it. */
  readonly eauths?: readonly string[];
  /** `max_event_size` of the master: bytes of the largest event. Default 1 MiB, as Salt's. */
  readonly maxEventSize?: number;
  /**
   * What the master gives the extension that makes this server. With it, the members of a cluster
   * share the sessions of their servers, and methods of extensions that are left out are unknown.
   * Default: sessions are this server's own.
   */
  readonly extensionHost?: Pick<ExtensionHost, 'find' | 'now' | 'shared'>;
  /** Routes beside Salt's own, such as those of a bridge. Default: none. */
  readonly plugins?: readonly SaltApiPlugin[];
  /** Default: says nothing. */
  readonly logger?: Logger;
}

/** Those whose absence is a value. */
type WithoutDefault =
  | 'tls'
  | 'hosts'
  | 'authorizedIps'
  | 'static'
  | 'app'
  | 'favicon'
  | 'logger'
  | 'clients'
  | 'extensionHost'
  | 'connections'
  | 'connectionsPerAddress';

/** Every option with a value, but for those. */
export type CompleteOptions = Required<Omit<SaltApiOptions, WithoutDefault>> &
  Pick<SaltApiOptions, WithoutDefault>;

const defaults: Omit<CompleteOptions, WithoutDefault> = {
  port: 0,
  host: '0.0.0.0',
  rootPrefix: '',
  staticPath: '/static',
  appPath: '/app',
  webhookUrl: '/hook',
  disableSsl: false,
  webhookDisableAuth: false,
  statsDisableAuth: false,
  enableSessions: true,
  maxRequestBodySize: 16_777_216,
  maxUnauthenticatedBodySize: 1_048_576,
  maxRequestBodyValues: 100_000,
  corsOrigin: [],
  sessionIdleSeconds: 36_000,
  runnerTimeoutSeconds: 300,
  streams: 1000,
  streamsPerToken: 64,
  bodyBytes: 134_217_728,
  bodyBytesPerAddress: 33_554_432,
  handshakesPerSecond: 50,
  streamBytes: 268_435_456,
  maxEventSize: 1_048_576,
  requestTimeoutMs: 30_000,
  metrics: 'loopback',
  statusPage: true,
  eauths: [],
  plugins: [],
};

/** @param configured - of the master's configuration: what `options` leaves out */
export function completeOptions(
  options: SaltApiOptions,
  configured: SaltApiOptions = {},
): CompleteOptions {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.freeze({ ...defaults, ...configured, ...Object.fromEntries(given) });
}

/**
 * The options of a master's configuration (`saltbridge: api:`, else `rest_cherrypy:`);
 * `undefined`: it asks for no HTTP API.
 * @throws SaltApiError ERR_HTTP_LISTEN for one without TLS that does not say so
 */
export function saltApiOptions(
  config: Pick<
    MasterConfig,
    'api' | 'restCherrypy' | 'restTimeout' | 'maxEventSize' | 'externalAuth' | 'netapiEnableClients'
  >,
): SaltApiOptions | undefined {
  const section = config.api ?? config.restCherrypy;
  if (section?.port === undefined) return undefined;
  const { sslCrt: _crt, sslKey: _key, sslChain: _chain, apiAcl: _acl, ...same } = section;
  const tls = tlsOf(section);
  return {
    ...same,
    runnerTimeoutSeconds: config.restTimeout,
    maxEventSize: config.maxEventSize,
    eauths: Object.keys(config.externalAuth),
    ...(tls === undefined ? {} : { tls }),
    ...(config.netapiEnableClients === null ? {} : { clients: config.netapiEnableClients }),
  };
}

function tlsOf({
  disableSsl = false,
  sslCrt,
  sslKey,
  sslChain,
}: Pick<HttpApiOptions, TlsNames | 'disableSsl'>): SaltApiTls | undefined {
  if (disableSsl) return undefined;
  if (sslCrt === undefined || sslKey === undefined) {
    throw new SaltApiError('ERR_HTTP_LISTEN', 'expected ssl_crt and ssl_key, or disable_ssl');
  }
  return {
    certificate: sslCrt,
    key: sslKey,
    ...(sslChain === undefined ? {} : { chain: sslChain }),
  };
}
