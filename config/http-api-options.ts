/**
 * Options under `rest_cherrypy:` and `saltbridge: api:`. They configure Salt's HTTP API
 * [salt/netapi/rest_cherrypy/app.py].
 */

import type { Static } from 'typebox';
import { addressSet } from '#runtime';
import { ConfigError, unknownOption } from './config-error.ts';
import {
  bytes,
  custom,
  fileNameOf,
  flag,
  type GivenSection,
  integer,
  type Keywords,
  list,
  mapOf,
  namesOf,
  number,
  optional,
  parseValue,
  refusals,
  section,
  text,
  textList,
  textWhere,
} from './schema.ts';
import { settingsOf } from './settings.ts';

/** Schema of a host name without a port, or `*`. */
const hostName = custom<string>(
  {
    expected: 'a host name without a port, or *',
    accept: (value) => {
      const isText = typeof value === 'string' || typeof value === 'number';
      const name = String(value).toLowerCase();
      return isText && /^(?:\*|[a-z\d_](?:[a-z\d_.-]*[a-z\d_])?)$/.test(name) ? name : undefined;
    },
  },
  { type: 'string' },
);

const address = textWhere(isAddress, 'an address, or a network such as 10.0.0.0/8');

/** Returns the schema of one or more addresses and networks. */
export function addressList(keywords: Keywords = {}): ReturnType<typeof textList> {
  const expected = 'a list of addresses and networks such as 10.0.0.0/8';
  return list(address, { minItems: 1, expected, ...keywords });
}

const userAddresses = list(
  textWhere((value) => value === '*' || isAddress(value), 'an address, a network, or *'),
  { expected: 'a list of addresses and networks, or *' },
);

function isAddress(value: string): boolean {
  try {
    addressSet([value]);
    return true;
  } catch {
    return false;
  }
}

/** `api_acl`: client addresses that users may log in from [app.py, salt_api_acl_tool]. */
export interface ApiAcl {
  /**
   * Addresses and networks by user. The address `*` permits any address. The user name `*` stands
   * for all users without an entry of their own. If there is no entry for `*`, users without an
   * entry cannot log in.
   */
  readonly users: Readonly<Record<string, readonly string[]>>;
}

const usersOfAcl = mapOf(userAddresses, { expected: 'a map of users to lists of addresses' });

const apiAcl = custom<ApiAcl>(
  {
    expected: 'a map users: of names, each with a list of addresses and networks, or *',
    description:
      'Client addresses from which users may log in. Default: every address for every user.',
    accept: (value) => {
      const users = parseValue(section({ users: usersOfAcl }), value)?.users;
      // Create the map without a prototype, because a file may contain names such as `constructor`.
      return users === undefined || Object.keys(users).length === 0
        ? undefined
        : { users: Object.assign(Object.create(null), users) };
    },
    explain: (setting) =>
      settingsOf(setting).flatMap(([name, inner]) =>
        name === 'users'
          ? settingsOf(inner).flatMap(([, users]) => refusals(userAddresses, users))
          : [unknownOption(inner.origin, ['users'], 'ERR_OPTION_TYPE')],
      ),
  },
  { type: 'object' },
);

function urlPath(description: string): ReturnType<typeof text> {
  return text({
    expected: 'a path such as /static',
    description,
    accept: (value) =>
      typeof value === 'string' && /^\/?[\w~-][\w.~-]*(?:\/[\w~-][\w.~-]*)*\/?$/.test(value)
        ? `/${value.replace(/^\/|\/$/g, '')}`
        : undefined,
  });
}

const body = { unit: 'bytes' };

const members = {
  port: optional(
    integer(0, 65_535, {
      description: 'Port. 0: any free port. The API is served only if a port is set.',
    }),
  ),
  host: optional(text({ description: 'Address to bind. Default: `0.0.0.0`.' })),
  hosts: optional(
    list(hostName, {
      expected: 'a list of host names without ports, or *',
      description:
        'Accepted names in the `Host` header, without ports; `*`: any. Addresses and `localhost` are always accepted. Default: no other names if `host` is a loopback address, otherwise any.',
    }),
  ),
  authorizedIps: optional(
    addressList({ description: 'Addresses and networks of clients. Default: all.' }),
  ),
  apiAcl: optional(apiAcl),
  disableSsl: optional(
    flag({ description: 'Whether plain HTTP is served, for use behind a proxy or on loopback.' }),
  ),
  sslCrt: optional(text({ description: 'Certificate, PEM. Required without `disable_ssl`.' })),
  sslKey: optional(text({ description: 'Key, PEM. Required without `disable_ssl`.' })),
  sslChain: optional(text({ description: 'Intermediate certificates, PEM.' })),
  rootPrefix: optional(urlPath('Prefix of all paths.')),
  static: optional(text({ description: 'Directory of public files.' })),
  staticPath: optional(urlPath('Path of the public files. Default: `/static`.')),
  app: optional(text({ description: 'HTML file of a page for browsers.' })),
  appPath: optional(urlPath('Path of the page for browsers. Default: `/app`.')),
  favicon: optional(text({ description: 'File of the icon.' })),
  webhookUrl: optional(urlPath('Path of hooks. Default: `/hook`.')),
  webhookDisableAuth: optional(
    flag({ description: 'Whether hooks accept requests from every client. Default: false.' }),
  ),
  statsDisableAuth: optional(
    flag({ description: 'Whether `/stats` accepts requests from every client. Default: false.' }),
  ),
  enableSessions: optional(
    flag({
      description:
        'Whether sessions are stored. If false, only `/run`, `/token` and public paths are served. Default: true.',
    }),
  ),
  maxRequestBodySize: optional(
    integer(1024, 100_000_000, {
      ...body,
      description: 'Maximum size of the body of a request with a token. Default: 16 MiB.',
    }),
  ),
  maxUnauthenticatedBodySize: optional(
    integer(1024, 100_000_000, {
      ...body,
      description: 'Maximum size of the body of any other request. Default: 1 MiB.',
    }),
  ),
  maxRequestBodyValues: optional(
    integer(100, 10_000_000, {
      description: 'Maximum number of values in a body. Default: 100,000.',
    }),
  ),
  corsOrigin: optional(
    textList({ description: 'Origins whose pages may read responses. Default: none.' }),
  ),
  sessionIdleSeconds: optional(
    number(1, 1e9, {
      fileName: 'session_idle',
      unit: 'seconds',
      description: 'Time after which an unused session expires. Default: 36,000.',
    }),
  ),
  streams: optional(
    integer(1, 100_000, { description: 'Maximum number of event streams. Default: 1,000.' }),
  ),
  streamsPerToken: optional(
    integer(1, 100_000, {
      description: 'Maximum number of event streams of one session. Default: 64.',
    }),
  ),
  streamBytes: optional(
    bytes(1_048_576, 1e12, {
      description:
        'Maximum size of the events that wait for readers. An event for several readers counts once. The slowest readers are disconnected first. Default: 256 MiB.',
    }),
  ),
  connections: optional(
    integer(1, 1_000_000, {
      description:
        'Maximum number of connections, at most half of the files that the process may open. Default: 10,000.',
    }),
  ),
  connectionsPerAddress: optional(
    integer(1, 1_000_000, {
      description:
        'Maximum number of connections from one address. Default: half of `connections`.',
    }),
  ),
  bodyBytes: optional(
    bytes(1_048_576, 1e12, {
      description: 'Maximum size of the bodies of all requests in progress. Default: 128 MiB.',
    }),
  ),
  bodyBytesPerAddress: optional(
    bytes(1_048_576, 1e12, {
      description:
        'Maximum size of the bodies of all requests in progress from one address. Default: 32 MiB.',
    }),
  ),
  metrics: optional(
    textWhere(
      (value) => value === 'loopback' || value === 'off' || value.startsWith('/'),
      'loopback, off, or the absolute path of a file with a token',
      {
        description:
          'Clients that may read `/metrics`: `loopback`, `off`, or the path of a file with a bearer token. Default: `loopback`.',
      },
    ),
  ),
  statusPage: optional(
    flag({ description: 'Whether the status page is served at `/status` and `/`. Default: true.' }),
  ),
};

/** Schema of the HTTP API's options. URL paths are used exactly as written. */
export const httpApi = section(members, {
  expected: `a map with any of ${namesOf({ properties: members }).join(', ')}; a port requires ssl_crt and ssl_key, or disable_ssl: true`,
  // Options of CherryPy and of its log files, which have no effect on this server.
  dropped: new Set([
    ...['debug', 'log_access_file', 'log_error_file', 'thread_pool', 'socket_queue_size'],
    ...['expire_responses', 'collect_stats'],
  ]),
  check: checkTls,
});

/** Options of the HTTP API. */
export type HttpApiOptions = Static<typeof httpApi>;

/**
 * Returns an error if `port` is set, but `ssl_crt` or `ssl_key` is missing. Returns none if
 * `disable_ssl` is true.
 */
function checkTls({ origin, values, meant }: GivenSection): readonly ConfigError[] {
  if (!meant.has('port')) return [];
  // If the value is not a boolean, another check reports that.
  if (meant.has('disableSsl') && values.disableSsl !== false) return [];
  const missing = (['sslCrt', 'sslKey'] as const)
    .filter((member) => !meant.has(member))
    .map((member) => fileNameOf(member, members[member]));
  if (missing.length === 0) return [];
  const problem = `the HTTP API would listen without TLS: add ${missing.join(' and ')}, or disable_ssl: true`;
  return [new ConfigError('ERR_OPTION_TYPE', origin, problem)];
}
