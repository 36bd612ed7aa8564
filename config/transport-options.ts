import { ConfigError, typeError, unknownOption } from './config-error.ts';
import {
  explainSection,
  flag,
  integer,
  membersMeant,
  type OptionKind,
  oneOf,
  readSection,
  type SectionTable,
  type Setting,
  sectionEntries,
  sectionProblems,
  settingsOf,
  text,
} from './option-kinds.ts';
import type {
  MasterConfig,
  SslOptions,
  TransportName,
  TransportOptions,
  TransportOpts,
} from './options.ts';

const sslTable: SectionTable<SslOptions> = {
  certfile: { name: 'certfile', kind: text },
  keyfile: { name: 'keyfile', kind: text },
  caCerts: { name: 'ca_certs', kind: text },
  certReqs: {
    name: 'cert_reqs',
    kind: oneOf(['CERT_NONE', 'CERT_OPTIONAL', 'CERT_REQUIRED']),
  },
  sslVersion: {
    name: 'ssl_version',
    kind: oneOf(['PROTOCOL_TLS', 'PROTOCOL_TLS_SERVER', 'PROTOCOL_SSLv23', 'PROTOCOL_TLSv1_2']),
  },
  ciphers: { name: 'ciphers', kind: text },
};

/** A map, or false. */
export const ssl: OptionKind<SslOptions | false> = {
  expected:
    'false, or a map with certfile and any of keyfile, ca_certs, cert_reqs (CERT_NONE; ' +
    'CERT_OPTIONAL or CERT_REQUIRED with ca_certs), ssl_version (PROTOCOL_TLS, ' +
    'PROTOCOL_TLS_SERVER, PROTOCOL_SSLv23 or PROTOCOL_TLSv1_2) and ciphers',
  isPath: false,
  parse: (value) => (flag.parse(value) === false ? false : parseMap(value)),
  explain: (setting) => {
    const found = explainSection(sslTable, setting);
    const missing = explainMissing(setting);
    return ConfigError.of([...(found?.problems ?? []), ...missing]);
  },
};

function explainMissing({ origin, value }: Setting): readonly ConfigError[] {
  const given = membersMeant(sslTable, value);
  if (given === undefined) return [];
  const named = new Map(sectionEntries(value));
  const checks = sslTable.certReqs.kind.parse(named.get('cert_reqs') ?? named.get('certReqs'));
  const checksPeers = checks !== undefined && checks !== 'CERT_NONE';
  return [
    ...(given.has('certfile') ? [] : ['certfile is missing; name the certificate, PEM']),
    ...(checksPeers && !given.has('caCerts')
      ? ['cert_reqs needs ca_certs, by which certificates are checked; add it']
      : []),
  ].map((problem) => new ConfigError('ERR_OPTION_TYPE', origin, problem));
}

/** Without a certificate no TLS can be spoken; without `ca_certs` nobody's could be checked. */
function parseMap(value: unknown): SslOptions | undefined {
  const { certfile, ...rest } = readSection(sslTable, value) ?? {};
  if (certfile === undefined) return undefined;
  const checksPeers = rest.certReqs !== undefined && rest.certReqs !== 'CERT_NONE';
  return checksPeers && rest.caCerts === undefined ? undefined : { certfile, ...rest };
}

const transports = ['zeromq', 'tcp', 'ws'] as const;

/** One of the three. */
export const transportName: OptionKind<TransportName> = oneOf(transports);

const port = integer(0, 65_535);

const transportTable: SectionTable<TransportOptions> = {
  interface: { name: 'interface', kind: text },
  ipv6: { name: 'ipv6', kind: flag },
  publishPort: { name: 'publish_port', kind: port },
  retPort: { name: 'ret_port', kind: port },
  ssl: { name: 'ssl', kind: ssl },
  zmqFiltering: { name: 'zmq_filtering', kind: flag },
  zmqBacklog: { name: 'zmq_backlog', kind: integer(1, 65_535) },
  pubHwm: { name: 'pub_hwm', kind: integer(1, 1_000_000_000) },
  tcpKeepalive: { name: 'tcp_keepalive', kind: flag },
  tcpKeepaliveIdle: { name: 'tcp_keepalive_idle', kind: integer(-1, 1_000_000_000) },
};

/** A map from transports to options of their own. */
export const transportOpts: OptionKind<TransportOpts> = {
  expected: `a map of zeromq, tcp or ws to a map with any of ${Object.values(transportTable)
    .map(({ name }) => name)
    .join(', ')}`,
  isPath: false,
  parse: (value) => {
    const opts: { -readonly [Name in keyof TransportOpts]: TransportOpts[Name] } = {};
    const entries = sectionEntries(value);
    for (const [name, given] of entries ?? []) {
      const transport = transportName.parse(name);
      const own = isNothing(given) ? {} : readSection(transportTable, given);
      if (transport === undefined || own === undefined) return undefined;
      opts[transport] = own;
    }
    return entries === undefined ? undefined : opts;
  },
  explain: (setting) =>
    ConfigError.of(settingsOf(setting).flatMap(([name, inner]) => explainTransport(name, inner))),
};

function explainTransport(name: string, own: Setting): readonly ConfigError[] {
  if (transportName.parse(name) === undefined) {
    return [unknownOption(own.origin, transports, 'ERR_OPTION_TYPE')];
  }
  if (isNothing(own.value) || readSection(transportTable, own.value) !== undefined) return [];
  const found = sectionProblems(transportTable, own);
  return found.length > 0 ? found : [typeError(own.origin, own.value, 'a map')];
}

/** Salt's own example has an empty list where a transport has nothing of its own. */
function isNothing(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}

/** A transport with the options that apply to it. */
export interface ServedTransport extends TransportOptions {
  readonly name: TransportName;
  /** The first one has the ports for relays. */
  readonly relay: MasterConfig['relay'];
}

/** The transports that are served: `transport` first, then the others of `transport_opts`. */
export function servedTransports(
  config: TransportOptions & Pick<MasterConfig, 'transport' | 'transportOpts' | 'relay'>,
): readonly ServedTransport[] {
  const { transport, transportOpts: opts } = config;
  const names = new Set<TransportName>([transport]);
  for (const name of transports) if (opts[name] !== undefined) names.add(name);
  return Array.from(names, (name) => {
    const relay = name === transport ? config.relay : null;
    return { ...config, ...opts[name], name, relay };
  });
}

/** A port that is bound, by the name of its option. */
interface OptionPort {
  readonly option: string;
  readonly host: string;
  readonly port: number;
}

/** The ports of a transport; 0 is any that is free, and not among them. */
export function portsOf({
  interface: host,
  publishPort,
  retPort,
  relay,
}: ServedTransport): readonly OptionPort[] {
  const own = [
    { option: 'publish_port', host, port: publishPort },
    { option: 'ret_port', host, port: retPort },
  ];
  const at = relay?.interface ?? host;
  const relayed =
    relay === null
      ? []
      : [
          { option: 'relay:publish_port', host: at, port: relay.publishPort },
          { option: 'relay:ret_port', host: at, port: relay.retPort },
        ];
  return [...own, ...relayed].filter(({ port: number }) => number !== 0);
}

/** A port that two listeners would share, in words; `undefined`: there is none. */
export function findSharedPort(transports: readonly ServedTransport[]): string | undefined {
  const taken = new Map<string, string>();
  for (const transport of transports) {
    for (const { option, host, port: number } of portsOf(transport)) {
      const place = `${host} ${number}`;
      const claim = `${option} of ${transport.name}`;
      const other = taken.get(place);
      if (other !== undefined) return `${other} and ${claim}`;
      taken.set(place, claim);
    }
  }
  return undefined;
}
