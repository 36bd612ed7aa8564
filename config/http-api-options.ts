/** `rest_cherrypy:` and `saltbridge: api:`, Salt's HTTP API [salt/netapi/rest_cherrypy/app.py]. */

import { addressSet } from '#runtime';
import { ConfigError, unknownOption } from './config-error.ts';
import {
  explainItems,
  flag,
  integer,
  isSettings,
  membersMeant,
  number,
  type OptionKind,
  readSection,
  refuseValue,
  type SectionTable,
  type Setting,
  sectionEntries,
  sectionProblems,
  settingsOf,
  text,
  textList,
} from './option-kinds.ts';

// Access by host name and address.

/** `api_acl`: from where users log in [salt/netapi/rest_cherrypy/app.py, salt_api_acl_tool]. */
export interface ApiAcl {
  /**
   * Addresses and networks by user; `*` among them is any. The user `*` stands for all who are not
   * named; without it nobody else logs in.
   */
  readonly users: Readonly<Record<string, readonly string[]>>;
}

/** Names of hosts without ports, or `*`. */
const hostNames: OptionKind<readonly string[]> = {
  expected: 'a list of names of hosts, without ports, or *',
  isPath: false,
  parse: (value) => {
    const names = textList.parse(value)?.map((name) => name.toLowerCase());
    return names?.every((name) => /^(?:\*|[a-z\d_](?:[a-z\d_.-]*[a-z\d_])?)$/.test(name))
      ? names
      : undefined;
  },
  explain: (setting) => {
    const expected = 'the name of a host, without a port, or *';
    const parse = (value: unknown): unknown => hostNames.parse([value]);
    return explainItems({ expected, parse }, setting);
  },
};

/** One or more addresses and networks. */
export const addressList: OptionKind<readonly string[]> = {
  expected: 'a list of addresses and networks such as 10.0.0.0/8',
  isPath: false,
  parse: (value) => {
    const list = textList.parse(value);
    return list !== undefined && list.length > 0 && areAddresses(list) ? list : undefined;
  },
  explain: (setting) => {
    const expected = 'an address, or a network such as 10.0.0.0/8';
    const parse = (value: unknown): unknown => addressList.parse([value]);
    return explainItems({ expected, parse }, setting);
  },
};

/** A map with `users` alone. */
const apiAcl: OptionKind<ApiAcl> = {
  expected: 'a map users: of names, each with a list of addresses and networks, or *',
  isPath: false,
  parse: (value) => {
    const [first, ...more] = sectionEntries(value) ?? [];
    if (first?.[0] !== 'users' || more.length > 0) return undefined;
    const users: Record<string, readonly string[]> = Object.create(null);
    for (const [name, given] of sectionEntries(first[1]) ?? []) {
      const list = userAddresses.parse(given);
      if (list === undefined) return undefined;
      users[name] = list;
    }
    return Object.keys(users).length === 0 ? undefined : { users };
  },
  explain: (setting) =>
    ConfigError.of(
      settingsOf(setting).flatMap(([name, inner]) =>
        name === 'users'
          ? settingsOf(inner).flatMap(([, list]) => explainUser(list))
          : [unknownOption(inner.origin, ['users'], 'ERR_OPTION_TYPE')],
      ),
    ),
};

const userAddresses: OptionKind<readonly string[]> = {
  expected: 'a list of addresses and networks, or *',
  isPath: false,
  parse: (value) => {
    const list = textList.parse(value);
    return list !== undefined && areAddresses(list.filter((it) => it !== '*')) ? list : undefined;
  },
  explain: (setting) => {
    const expected = 'an address, a network, or *';
    const parse = (value: unknown): unknown => userAddresses.parse([value]);
    return explainItems({ expected, parse }, setting);
  },
};

function explainUser(list: Setting): readonly ConfigError[] {
  return userAddresses.parse(list.value) === undefined
    ? refuseValue(userAddresses, list).problems
    : [];
}

function areAddresses(list: readonly string[]): boolean {
  try {
    addressSet(list);
    return true;
  } catch {
    return false;
  }
}

/** Where and how the HTTP API is served. Paths are taken as they are. */
export interface HttpApiOptions {
  /** `port`: where it listens; 0: any free port. A configuration without it asks for nothing. */
  readonly port?: number;
  /** `host`: the address. Default `0.0.0.0`. */
  readonly host?: string;
  /**
   * `hosts`: names that it is asked for by (header `Host`), without ports; `*`: any. Addresses and
   * `localhost` are always heard. Default: no other names where `host` is a loopback address, else
   * any.
   */
  readonly hosts?: readonly string[];
  /** `authorized_ips`: addresses and networks that anything is answered to. Default: all. */
  readonly authorizedIps?: readonly string[];
  /** `api_acl`: from where which users log in. Default: everybody from everywhere. */
  readonly apiAcl?: ApiAcl;
  /** `disable_ssl`: serve plain HTTP, behind a proxy or on loopback. Default false. */
  readonly disableSsl?: boolean;
  /** `ssl_crt`: the certificate, PEM. Needed but for `disable_ssl`. */
  readonly sslCrt?: string;
  /** `ssl_key`: its key, PEM. Needed but for `disable_ssl`. */
  readonly sslKey?: string;
  /** `ssl_chain`: certificates between it and a root, PEM. */
  readonly sslChain?: string;
  /** `root_prefix`: what all paths begin with. Default: nothing. */
  readonly rootPrefix?: string;
  /** `static`: directory of files that anybody may read. Default: none. */
  readonly static?: string;
  /** `static_path`. Default `/static`. */
  readonly staticPath?: string;
  /** `app`: the page that browsers get. Default: none. */
  readonly app?: string;
  /** `app_path`. Default `/app`. */
  readonly appPath?: string;
  /** `favicon`: file. Default: none. */
  readonly favicon?: string;
  /** `webhook_url`. Default `/hook`. */
  readonly webhookUrl?: string;
  /** `webhook_disable_auth`: anybody may fire hooks. Default false. */
  readonly webhookDisableAuth?: boolean;
  /** `stats_disable_auth`: anybody may read `/stats`. Default false. */
  readonly statsDisableAuth?: boolean;
  /** `enable_sessions`: false leaves `/run`, `/token` and what needs no log-in. Default true. */
  readonly enableSessions?: boolean;
  /** `max_request_body_size`: bytes of a body of whoever shows a token. Default 16 MiB. */
  readonly maxRequestBodySize?: number;
  /** `max_unauthenticated_body_size`: bytes of any other body. Default 1 MiB. */
  readonly maxUnauthenticatedBodySize?: number;
  /** `max_request_body_values`: values of a body. Default 100,000. */
  readonly maxRequestBodyValues?: number;
  /** `cors_origin`: origins whose pages may read answers, exactly. Default: none. */
  readonly corsOrigin?: readonly string[];
  /** `session_idle`: how long a log-in holds that is not used. Default 36,000. */
  readonly sessionIdleSeconds?: number;
  /** `streams`: event streams at a time. Default 1,000. */
  readonly streams?: number;
  /** `streams_per_token`: event streams of one log-in at a time. Default 64. */
  readonly streamsPerToken?: number;
  /**
   * `stream_bytes`: what may wait for the readers of all event streams together, what several of
   * them wait for counted once; the slowest are ended first. Default 256 MiB.
   */
  readonly streamBytes?: number;
  /**
   * `connections`: at a time. Default 10,000; never more than half of the files that the process may
   * have open: the rest is the minions'.
   */
  readonly connections?: number;
  /** `connections_per_address`: at a time. Default: half of `connections`. */
  readonly connectionsPerAddress?: number;
  /** `body_bytes`: of requests that are not answered yet. Default 128 MiB. */
  readonly bodyBytes?: number;
  /** `body_bytes_per_address`: the same of one address. Default 32 MiB. */
  readonly bodyBytesPerAddress?: number;
  /**
   * `handshakes_per_second`: TLS handshakes of one address, four times as many at once, and of all
   * addresses; what is over that waits. 0: without limit. Default 50.
   */
  readonly handshakesPerSecond?: number;
  /** `metrics`: `loopback`, `off`, or the path of a file with a bearer token. Default loopback. */
  readonly metrics?: string;
  /** `status_page`: the page for people at `/status` and `/`. Default true. */
  readonly statusPage?: boolean;
}

const urlPath: OptionKind<string> = {
  expected: 'a path such as /static',
  isPath: false,
  parse: (value) => {
    const read = text.parse(value);
    if (read === undefined || !/^\/?[\w~-][\w.~-]*(?:\/[\w~-][\w.~-]*)*\/?$/.test(read))
      return undefined;
    return `/${read.replace(/^\/|\/$/g, '')}`;
  },
};

const metricsAccess: OptionKind<string> = {
  expected: 'loopback, off, or the whole path of a file with a token',
  isPath: false,
  parse: (value) => {
    const read = text.parse(value);
    return read === 'loopback' || read === 'off' || read?.startsWith('/') ? read : undefined;
  },
};

const table: SectionTable<HttpApiOptions> = {
  port: { name: 'port', kind: integer(0, 65_535) },
  host: { name: 'host', kind: text },
  hosts: { name: 'hosts', kind: hostNames },
  authorizedIps: { name: 'authorized_ips', kind: addressList },
  apiAcl: { name: 'api_acl', kind: apiAcl },
  disableSsl: { name: 'disable_ssl', kind: flag },
  sslCrt: { name: 'ssl_crt', kind: text },
  sslKey: { name: 'ssl_key', kind: text },
  sslChain: { name: 'ssl_chain', kind: text },
  rootPrefix: { name: 'root_prefix', kind: urlPath },
  static: { name: 'static', kind: text },
  staticPath: { name: 'static_path', kind: urlPath },
  app: { name: 'app', kind: text },
  appPath: { name: 'app_path', kind: urlPath },
  favicon: { name: 'favicon', kind: text },
  webhookUrl: { name: 'webhook_url', kind: urlPath },
  webhookDisableAuth: { name: 'webhook_disable_auth', kind: flag },
  statsDisableAuth: { name: 'stats_disable_auth', kind: flag },
  enableSessions: { name: 'enable_sessions', kind: flag },
  maxRequestBodySize: { name: 'max_request_body_size', kind: integer(1024, 100_000_000) },
  maxUnauthenticatedBodySize: {
    name: 'max_unauthenticated_body_size',
    kind: integer(1024, 100_000_000),
  },
  maxRequestBodyValues: { name: 'max_request_body_values', kind: integer(100, 10_000_000) },
  corsOrigin: { name: 'cors_origin', kind: textList },
  sessionIdleSeconds: { name: 'session_idle', kind: number(1, 1e9) },
  streams: { name: 'streams', kind: integer(1, 100_000) },
  streamsPerToken: { name: 'streams_per_token', kind: integer(1, 100_000) },
  streamBytes: { name: 'stream_bytes', kind: integer(1_048_576, 1e12) },
  connections: { name: 'connections', kind: integer(1, 1_000_000) },
  connectionsPerAddress: { name: 'connections_per_address', kind: integer(1, 1_000_000) },
  bodyBytes: { name: 'body_bytes', kind: integer(1_048_576, 1e12) },
  bodyBytesPerAddress: { name: 'body_bytes_per_address', kind: integer(1_048_576, 1e12) },
  handshakesPerSecond: { name: 'handshakes_per_second', kind: integer(0, 1_000_000) },
  metrics: { name: 'metrics', kind: metricsAccess },
  statusPage: { name: 'status_page', kind: flag },
};

/** Options of CherryPy itself, and of log files: they mean nothing to this server. */
const ofCherrypy: ReadonlySet<string> = new Set([
  'debug',
  'log_access_file',
  'log_error_file',
  'thread_pool',
  'socket_queue_size',
  'expire_responses',
  'collect_stats',
]);

/** A map; what is not in it has its default. */
export const httpApi: OptionKind<HttpApiOptions> = {
  expected: `a map with any of ${Object.values(table)
    .map(({ name }) => name)
    .join(', ')}; with ssl_crt and ssl_key, or disable_ssl: true, where there is a port`,
  isPath: false,
  parse: (value) => {
    const known = withoutCherrypy(value);
    const section = readSection(table, known);
    if (section === undefined || missingForTls(known).length > 0) return undefined;
    return Object.freeze(section);
  },
  explain: ({ origin, value }) => {
    const known = withoutCherrypy(value);
    const missing = missingForTls(known);
    const problem = `the HTTP API would listen without TLS; add ${missing.join(' and ')}, or disable_ssl: true`;
    return ConfigError.of([
      ...sectionProblems(table, { origin, value: known }),
      ...(missing.length === 0 ? [] : [new ConfigError('ERR_OPTION_TYPE', origin, problem)]),
    ]);
  },
};

function withoutCherrypy(value: unknown): unknown {
  if (!isSettings(value)) return value;
  return new Map([...value].filter(([name]) => !ofCherrypy.has(name)));
}

/** What an API that listens needs, because nobody said that it is to do without TLS. */
function missingForTls(value: unknown): string[] {
  const given = membersMeant(table, value);
  if (given?.has('port') !== true) return [];
  const named = new Map(sectionEntries(value));
  const isOff = named.get('disable_ssl') ?? named.get('disableSsl');
  // What is neither true nor false is told by itself.
  if (given.has('disableSsl') && isOff !== false) return [];
  return (['sslCrt', 'sslKey'] as const)
    .filter((member) => !given.has(member))
    .map((member) => table[member].name);
}
