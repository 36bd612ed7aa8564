/** Options of the HTTP API. */
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import type { HttpApiOptions, MasterConfig } from '#config';
import type { ExtensionHost, RpcTable } from '#master';
import type { SendPool } from '#runtime';
import { SaltApiError } from './errors.ts';
import type { StreamLimiter } from './event-stream.ts';

/** TLS files of the server, as paths of PEM files. */
export interface SaltApiTls {
  readonly certificate: string;
  readonly key: string;
  /** File with the intermediate certificates. Default: none. */
  readonly chain?: string;
  /** Interval between checks whether the files have changed, in milliseconds. Default: 20,000. */
  readonly renewalIntervalMs?: number;
}

/** Additional routes under a path prefix. */
export interface SaltApiPlugin {
  /** Path prefix of the routes, for example `/bridge/v1`. `rootPrefix` precedes it. */
  readonly prefix: string;
  /**
   * Further methods that clients can call as `/rpc/<name>`. They have the same form as the methods
   * of the local socket. Methods for users run with the token of the caller. All others require a
   * caller with all rights. Default: none.
   */
  readonly methods?: () => RpcTable;
  register(app: FastifyInstance, doors: SaltApiPluginContext): void;
  /**
   * Handles a request for WebSocket below the prefix. It always answers the request or ends the
   * connection. Default: such requests are rejected.
   * @param path - part of the path after the prefix, such as `/link`
   */
  upgrade?(request: IncomingMessage, socket: Duplex, head: Buffer, path: string): void;
}

/** Services of the server that additional routes can use. */
export interface SaltApiPluginContext {
  /**
   * Returns the master's token for a request. If the request contains a session token, this is the
   * token with which the session's user is logged in at the master. Otherwise, it is the token in
   * the request, unchanged. Returns `undefined` if the request contains no token.
   */
  readonly tokenOf: (request: FastifyRequest) => string | undefined;
  /** Signal that is aborted when the server closes. It ends streams. */
  readonly closing: AbortSignal;
  /** Limiter for the number of event streams, in total, per user and per token. */
  readonly streams: Pick<StreamLimiter, 'tryEnter'>;
  /** Memory budget for the responses that wait for slow readers, shared by all streams. */
  readonly sendPool: Pick<SendPool, 'open'>;
  /**
   * Reads a JSON body within the limits of the server. Returns `undefined` if there is no body.
   * @throws SaltApiError ERR_HTTP_BODY, ERR_HTTP_BUSY
   */
  readonly readJson: (request: FastifyRequest, payload: IncomingMessage) => Promise<unknown>;
}

/**
 * Options whose values are paths of TLS files in a configuration. Programs use
 * {@link SaltApiOptions.tls} instead.
 */
type TlsNames = 'sslCrt' | 'sslKey' | 'sslChain';

/**
 * Options that apply to all log-ins at the master, not only to those through this API. Only the
 * configuration of the master can set them.
 */
type OfMaster = 'apiAcl';

/** Options that a program may set. */
export interface SaltApiOptions extends Omit<HttpApiOptions, TlsNames | OfMaster> {
  /** TLS files. Default: plain HTTP, which `listen` serves only on loopback addresses. */
  readonly tls?: SaltApiTls;
  /**
   * Whether `listen` may serve plain HTTP on any address, for use behind a proxy. Default: false.
   */
  readonly disableSsl?: boolean;
  /** Names of the clients to serve. Default: all. */
  readonly clients?: readonly string[];
  /** Time limit for runners, in seconds. Default: 300. */
  readonly runnerTimeoutSeconds?: number;
  /**
   * Time limit for receiving a request, and for a reader that has stopped reading a response, in
   * milliseconds. Default: 30,000.
   */
  readonly requestTimeoutMs?: number;
  /**
   * Names of the eauth back ends that the log-in form of the status page offers. Default: users
   * type the name.
   */
  readonly eauths?: readonly string[];
  /** `max_event_size` of the master, in bytes. Default: 1 MiB, as in Salt. */
  readonly maxEventSize?: number;
  /**
   * Extension host to which this server belongs. If it is set, the members of a cluster share
   * sessions. `/rpc` then offers the methods of an extension only if the host has loaded that
   * extension. Default: the server has its own sessions.
   */
  readonly extensionHost?: Pick<ExtensionHost, 'find' | 'now' | 'shared'>;
  /** Routes in addition to Salt's, for example those of a bridge. Default: none. */
  readonly plugins?: readonly SaltApiPlugin[];
  /** Logger. Default: no logging. */
  readonly logger?: Logger;
}

/**
 * Options without a default value. Their absence has its own meaning, for example that all clients
 * are served.
 */
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

/** Options with default values filled in, where a default exists. */
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
  streamBytes: 268_435_456,
  maxEventSize: 1_048_576,
  requestTimeoutMs: 30_000,
  metrics: 'loopback',
  statusPage: true,
  eauths: [],
  plugins: [],
};

/**
 * Fills in the default values.
 * @param configured - options of the master's configuration, used where `options` has no value
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
 * @throws SaltApiError ERR_HTTP_LISTEN if `ssl_crt` or `ssl_key` is missing and `disable_ssl` is
 * not set
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
    throw new SaltApiError(
      'ERR_HTTP_LISTEN',
      'TLS is not configured; set ssl_crt and ssl_key, or set disable_ssl for plain HTTP',
    );
  }
  return {
    certificate: sslCrt,
    key: sslKey,
    ...(sslChain === undefined ? {} : { chain: sslChain }),
  };
}
