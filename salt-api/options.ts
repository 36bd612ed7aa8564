/** Options of the HTTP API. */
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
  /** Intermediate certificates. Default: none. */
  readonly chain?: string;
  /** Interval of checks for renewed files, in milliseconds. Default: 20,000. */
  readonly renewalIntervalMs?: number;
}

/** Additional routes below a path of their own. */
export interface SaltApiPlugin {
  /** Path prefix, for example `/bridge/v1`, after `rootPrefix`. */
  readonly prefix: string;
  /**
   * Methods that are available as `/rpc/<name>`, as on the local socket. User methods run with the
   * token of the caller. Others require a caller with all rights. Default: none.
   */
  readonly methods?: () => RpcTable;
  register(app: FastifyInstance, doors: SaltApiPluginContext): void;
}

/** Services of the server for additional routes. */
export interface SaltApiPluginContext {
  /** Returns the master's token of a request: that of its session, or one in its header. */
  readonly tokenOf: (request: FastifyRequest) => string | undefined;
  /** Signal that fires when the server closes. It ends streams. */
  readonly closing: AbortSignal;
  /** Limits of event streams, in total and per token. */
  readonly streams: Pick<StreamLimiter, 'tryEnter'>;
  /** Buffer for the readers of all streams. */
  readonly sendPool: Pick<SendPool, 'open'>;
  /**
   * Reads a JSON body within the server's limits. Returns `undefined` if there is none.
   * @throws SaltApiError ERR_HTTP_BODY, ERR_HTTP_BUSY
   */
  readonly readJson: (request: FastifyRequest, payload: IncomingMessage) => Promise<unknown>;
}

/**
 * Options with file names in a configuration, for which programs use {@link SaltApiOptions.tls}.
 */
type TlsNames = 'sslCrt' | 'sslKey' | 'sslChain';

/** Options that the master's configuration sets for all log-ins. */
type OfMaster = 'apiAcl';

/** Options that a program may set. */
export interface SaltApiOptions extends Omit<HttpApiOptions, TlsNames | OfMaster> {
  /** Default: plain HTTP, which `listen` only serves on loopback addresses. */
  readonly tls?: SaltApiTls;
  /** Whether `listen` serves plain HTTP on any address, for use behind a proxy. Default: false. */
  readonly disableSsl?: boolean;
  /** Names of the clients to serve. Default: all. */
  readonly clients?: readonly string[];
  /** Time limit for runners, in seconds. Default: 300. */
  readonly runnerTimeoutSeconds?: number;
  /**
   * Time limit for receiving a request, and for a stalled reader of a response, in milliseconds.
   * Default: 30,000.
   */
  readonly requestTimeoutMs?: number;
  /** Names of eauths for the log-in form of the status page. Default: users type the name. */
  readonly eauths?: readonly string[];
  /** `max_event_size` of the master, in bytes. Default: 1 MiB, as in Salt. */
  readonly maxEventSize?: number;
  /**
   * Host of the extension that creates this server. If it is set, the members of a cluster share
   * sessions, and methods of extensions that are not loaded are unknown. Default: this server has
   * its own sessions.
   */
  readonly extensionHost?: Pick<ExtensionHost, 'find' | 'now' | 'shared'>;
  /** Routes in addition to Salt's, for example those of a bridge. Default: none. */
  readonly plugins?: readonly SaltApiPlugin[];
  /** Logger. Default: no logging. */
  readonly logger?: Logger;
}

/** Options whose absence has a meaning. */
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

/** Options with all defaults filled in, except those without a default. */
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

/**
 * Fills in defaults.
 * @param configured - options of the master's configuration, for those that `options` omits
 */
export function completeOptions(
  options: SaltApiOptions,
  configured: SaltApiOptions = {},
): CompleteOptions {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.freeze({ ...defaults, ...configured, ...Object.fromEntries(given) });
}

/**
 * Returns the options from a master's configuration (`saltbridge: api:`, otherwise
 * `rest_cherrypy:`), or `undefined` if it does not enable the HTTP API.
 * @throws SaltApiError ERR_HTTP_LISTEN if it has no TLS and does not confirm that
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
