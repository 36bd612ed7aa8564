/** What the HTTP API may be told. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import type { MasterConfig } from '../master/index.ts';
import { SaltApiError } from './errors.ts';

/** TLS: paths of PEM files. */
export interface SaltApiTls {
  readonly certificate: string;
  readonly key: string;
  /** Certificates between it and a root. Default: none. */
  readonly chain?: string;
}

/** Routes that somebody adds to the server, below a path of their own. */
export interface SaltApiPlugin {
  /** For instance `/bridge/v1`; behind `rootPrefix`. */
  readonly prefix: string;
  register(app: FastifyInstance, doors: SaltApiDoors): void;
}

/** What the server gives to routes of others. */
export interface SaltApiDoors {
  /** The master's token behind the session of a request, or that it shows itself. */
  readonly tokenOf: (request: FastifyRequest) => string | undefined;
  /** Fires when the server is closed: streams end. */
  readonly closing: AbortSignal;
}

/** Options of the HTTP API; the defaults are Salt's where Salt has them. */
export interface SaltApiOptions {
  /** Where {@link SaltApi.listen} listens. Default 0: any free port. */
  readonly port?: number;
  /** Default `0.0.0.0`. */
  readonly host?: string;
  /** Default: plain HTTP. */
  readonly tls?: SaltApiTls;
  /** What all paths begin with, for instance `/salt`. Default: nothing. */
  readonly rootPrefix?: string;
  /** Directory of files that anybody may read, as it is when the API is made. Default: none. */
  readonly static?: string;
  /** Default `/static`. */
  readonly staticPath?: string;
  /** The page that browsers get: a file. Default: none. */
  readonly app?: string;
  /** Default `/app`. */
  readonly appPath?: string;
  /** File for `/favicon.ico`. Default: none. */
  readonly favicon?: string;
  /** Default `/hook`. */
  readonly webhookUrl?: string;
  /** Anybody may fire hooks. Default false. */
  readonly webhookDisableAuth?: boolean;
  /** Anybody may read `/stats`. Default false. */
  readonly statsDisableAuth?: boolean;
  /** False leaves what needs no log-in, `/run` and `/token`. Default true. */
  readonly enableSessions?: boolean;
  /** Names of clients that are served. Default: all. */
  readonly clients?: readonly string[];
  /** Largest body, bytes. Default 1 MiB. */
  readonly maxBodyBytes?: number;
  /** Origins whose pages may read answers, exactly. Default: none. */
  readonly corsOrigins?: readonly string[];
  /** Milliseconds without use after which a log-in ends. Default 10 hours. */
  readonly sessionIdleMs?: number;
  /** Seconds that runners have. Default 300. */
  readonly runnerTimeout?: number;
  /** Event streams at a time. Default 1,000. */
  readonly maxStreams?: number;
  /** Event streams of one log-in at a time. Default 8. */
  readonly maxStreamsPerToken?: number;
  /** Milliseconds that a request may take to arrive. Default 30,000. */
  readonly requestTimeoutMs?: number;
  /**
   * Who may read `/metrics`: `loopback`, whoever asks on this machine and not through a proxy; the
   * path of a file with a bearer token; `off`. Default `loopback`.
   */
  readonly metrics?: string;
  /** Whether people get a page about the master, at `/status` and at `/`. Default true. */
  readonly statusPage?: boolean;
  /** Names of what users log in by, for the status page's form. Default: they type it. */
  readonly eauths?: readonly string[];
  /** Routes beside Salt's own, such as those of a bridge. Default: none. */
  readonly plugins?: readonly SaltApiPlugin[];
  /** Default: says nothing. */
  readonly logger?: Logger;
}

/** Every option with a value, but for those whose absence is one. */
export type CompleteOptions = Required<
  Omit<SaltApiOptions, 'tls' | 'static' | 'app' | 'favicon' | 'logger' | 'clients'>
> &
  Pick<SaltApiOptions, 'tls' | 'static' | 'app' | 'favicon' | 'logger' | 'clients'>;

const defaults: Omit<CompleteOptions, 'tls' | 'static' | 'app' | 'favicon' | 'logger' | 'clients'> =
  {
    port: 0,
    host: '0.0.0.0',
    rootPrefix: '',
    staticPath: '/static',
    appPath: '/app',
    webhookUrl: '/hook',
    webhookDisableAuth: false,
    statsDisableAuth: false,
    enableSessions: true,
    maxBodyBytes: 1_048_576,
    corsOrigins: [],
    sessionIdleMs: 36_000_000,
    runnerTimeout: 300,
    maxStreams: 1000,
    maxStreamsPerToken: 8,
    requestTimeoutMs: 30_000,
    metrics: 'loopback',
    statusPage: true,
    eauths: [],
    plugins: [],
  };

export function completeOptions(options: SaltApiOptions): CompleteOptions {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.freeze({ ...defaults, ...Object.fromEntries(given) });
}

/**
 * The options of a master's configuration (`saltbridge: api:`, else `rest_cherrypy:`);
 * `undefined`: it asks for no HTTP API.
 * @throws SaltApiError ERR_HTTP_LISTEN for one without TLS that does not say so
 */
export function saltApiOptions(config: MasterConfig): SaltApiOptions | undefined {
  const section = config.api ?? config.restCherrypy;
  if (section?.port === undefined) return undefined;
  const { disableSsl = false, sslCrt, sslKey, sslChain, ...rest } = section;
  const { corsOrigin, sessionIdle, streams, streamsPerToken, maxRequestBodySize, ...same } = rest;
  if (!disableSsl && (sslCrt === undefined || sslKey === undefined)) {
    throw new SaltApiError('ERR_HTTP_LISTEN', 'expected ssl_crt and ssl_key, or disable_ssl');
  }
  const tls =
    disableSsl || sslCrt === undefined || sslKey === undefined
      ? undefined
      : {
          certificate: sslCrt,
          key: sslKey,
          ...(sslChain === undefined ? {} : { chain: sslChain }),
        };
  return {
    ...same,
    runnerTimeout: config.restTimeout,
    eauths: Object.keys(config.externalAuth),
    ...(tls === undefined ? {} : { tls }),
    ...(config.netapiEnableClients === null ? {} : { clients: config.netapiEnableClients }),
    ...(corsOrigin === undefined ? {} : { corsOrigins: corsOrigin }),
    ...(sessionIdle === undefined ? {} : { sessionIdleMs: sessionIdle * 1000 }),
    ...(streams === undefined ? {} : { maxStreams: streams }),
    ...(streamsPerToken === undefined ? {} : { maxStreamsPerToken: streamsPerToken }),
    ...(maxRequestBodySize === undefined ? {} : { maxBodyBytes: maxRequestBodySize }),
  };
}
