/** `rest_cherrypy:` and `saltbridge: api:`, Salt's HTTP API [salt/netapi/rest_cherrypy/app.py]. */

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

/** Names of hosts without ports, or `*`. */
const hostName = custom<string>(
  {
    expected: 'the name of a host, without a port, or *',
    accept: (value) => {
      const isText = typeof value === 'string' || typeof value === 'number';
      const name = String(value).toLowerCase();
      return isText && /^(?:\*|[a-z\d_](?:[a-z\d_.-]*[a-z\d_])?)$/.test(name) ? name : undefined;
    },
  },
  { type: 'string' },
);

const address = textWhere(isAddress, 'an address, or a network such as 10.0.0.0/8');

/** One or more addresses and networks. */
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

/** `api_acl`: addresses that users log in from [app.py, salt_api_acl_tool]. */
export interface ApiAcl {
  /**
   * Addresses and networks by user; `*` among them is any. The user `*` stands for all who are not
   * named; without it no other user logs in.
   */
  readonly users: Readonly<Record<string, readonly string[]>>;
}

const usersOfAcl = mapOf(userAddresses, { expected: 'a map of users to lists of addresses' });

const apiAcl = custom<ApiAcl>(
  {
    expected: 'a map users: of names, each with a list of addresses and networks, or *',
    description: 'Addresses that users log in from. Default: every address for every user.',
    accept: (value) => {
      const users = parseValue(section({ users: usersOfAcl }), value)?.users;
      // The names come from a file: none of them may be one of an object's prototype.
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
      description: 'Port. 0: any free port. Without a port, the API is not served.',
    }),
  ),
  host: optional(text({ description: 'Address to bind. Default: `0.0.0.0`.' })),
  hosts: optional(
    list(hostName, {
      expected: 'a list of names of hosts, without ports, or *',
      description:
        'Names in the header `Host` that are accepted, without ports; `*`: any. Addresses and `localhost` are always accepted. Default: no other names if `host` is a loopback address, else any.',
    }),
  ),
  authorizedIps: optional(
    addressList({ description: 'Addresses and networks of clients. Default: all.' }),
  ),
  apiAcl: optional(apiAcl),
  disableSsl: optional(
    flag({ description: 'Whether plain HTTP is served, behind a proxy or on loopback.' }),
  ),
  sslCrt: optional(text({ description: 'Certificate, PEM. Required without `disable_ssl`.' })),
  sslKey: optional(text({ description: 'Key, PEM. Required without `disable_ssl`.' })),
  sslChain: optional(text({ description: 'Certificates between it and a root, PEM.' })),
  rootPrefix: optional(urlPath('Prefix of all paths.')),
  static: optional(text({ description: 'Directory of public files.' })),
  staticPath: optional(urlPath('Path of these files. Default: `/static`.')),
  app: optional(text({ description: 'Page for browsers.' })),
  appPath: optional(urlPath('Path of this page. Default: `/app`.')),
  favicon: optional(text({ description: 'File of the icon.' })),
  webhookUrl: optional(urlPath('Path of hooks. Default: `/hook`.')),
  webhookDisableAuth: optional(
    flag({ description: 'Whether hooks are open to every client. Default: false.' }),
  ),
  statsDisableAuth: optional(
    flag({ description: 'Whether `/stats` is open to every client. Default: false.' }),
  ),
  enableSessions: optional(
    flag({
      description:
        'Whether log-ins are kept. With false only `/run`, `/token` and public paths are served. Default: true.',
    }),
  ),
  maxRequestBodySize: optional(
    integer(1024, 100_000_000, {
      ...body,
      description: 'Size of the body of a request with a token. Default: 16 MiB.',
    }),
  ),
  maxUnauthenticatedBodySize: optional(
    integer(1024, 100_000_000, {
      ...body,
      description: 'Size of the body of any other request. Default: 1 MiB.',
    }),
  ),
  maxRequestBodyValues: optional(
    integer(100, 10_000_000, { description: 'Values in a body. Default: 100,000.' }),
  ),
  corsOrigin: optional(
    textList({ description: 'Origins whose pages may read answers. Default: none.' }),
  ),
  sessionIdleSeconds: optional(
    number(1, 1e9, {
      fileName: 'session_idle',
      unit: 'seconds',
      description: 'Time after which an unused log-in ends. Default: 36,000.',
    }),
  ),
  streams: optional(
    integer(1, 100_000, { description: 'Event streams at a time. Default: 1,000.' }),
  ),
  streamsPerToken: optional(
    integer(1, 100_000, { description: 'Event streams of one log-in at a time. Default: 64.' }),
  ),
  streamBytes: optional(
    bytes(1_048_576, 1e12, {
      description:
        'Size of the events that wait for readers; events that several readers wait for count once, and the slowest readers are disconnected first. Default: 256 MiB.',
    }),
  ),
  connections: optional(
    integer(1, 1_000_000, {
      description:
        'Connections at a time, at most half of the files that the process may open. Default: 10,000.',
    }),
  ),
  connectionsPerAddress: optional(
    integer(1, 1_000_000, {
      description: 'Connections of one address at a time. Default: half of `connections`.',
    }),
  ),
  bodyBytes: optional(
    bytes(1_048_576, 1e12, {
      description: 'Size of all bodies of unanswered requests. Default: 128 MiB.',
    }),
  ),
  bodyBytesPerAddress: optional(
    bytes(1_048_576, 1e12, { description: 'The same for one address. Default: 32 MiB.' }),
  ),
  handshakesPerSecond: optional(
    integer(0, 1_000_000, {
      description:
        'TLS handshakes of one address, and four times as many of all addresses; the others wait. 0: no limit. Default: 50.',
    }),
  ),
  metrics: optional(
    textWhere(
      (value) => value === 'loopback' || value === 'off' || value.startsWith('/'),
      'loopback, off, or the whole path of a file with a token',
      {
        description:
          'Who reads `/metrics`: `loopback`, `off`, or the path of a file with a bearer token. Default: `loopback`.',
      },
    ),
  ),
  statusPage: optional(
    flag({ description: 'Whether the status page is served at `/status` and `/`. Default: true.' }),
  ),
};

/** The HTTP API. Paths are used as they are written. */
export const httpApi = section(members, {
  expected: `a map with any of ${namesOf({ properties: members }).join(', ')}; with ssl_crt and ssl_key, or disable_ssl: true, where there is a port`,
  // Options of CherryPy itself, and of log files, mean nothing to this server.
  dropped: new Set([
    ...['debug', 'log_access_file', 'log_error_file', 'thread_pool', 'socket_queue_size'],
    ...['expire_responses', 'collect_stats'],
  ]),
  check: checkTls,
});

/** Where and how the HTTP API is served. */
export type HttpApiOptions = Static<typeof httpApi>;

/** A port without TLS must be meant. */
function checkTls({ origin, values, meant }: GivenSection): readonly ConfigError[] {
  if (!meant.has('port')) return [];
  // What is neither true nor false is a mistake by itself.
  if (meant.has('disableSsl') && values.disableSsl !== false) return [];
  const missing = (['sslCrt', 'sslKey'] as const)
    .filter((member) => !meant.has(member))
    .map((member) => fileNameOf(member, members[member]));
  if (missing.length === 0) return [];
  const problem = `the HTTP API would listen without TLS; add ${missing.join(' and ')}, or disable_ssl: true`;
  return [new ConfigError('ERR_OPTION_TYPE', origin, problem)];
}
