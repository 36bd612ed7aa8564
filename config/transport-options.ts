/** Salt's options `transport`, `transport_opts` and `ssl`. */

import type { Static } from 'typebox';
import { ConfigError, unknownOption } from './config-error.ts';
import {
  custom,
  flag,
  type GivenSection,
  integer,
  many,
  namesOf,
  oneOf,
  optional,
  parseValue,
  refusals,
  section,
  text,
} from './schema.ts';
import { type Setting, sectionEntries, settingsOf } from './settings.ts';

const sslSection = section(
  {
    certfile: optional(text({ description: 'Certificate with its chain, PEM.' })),
    keyfile: optional(text({ description: 'Key, PEM. Default: in `certfile`.' })),
    caCerts: optional(text({ description: 'CA of the certificates of minions, PEM.' })),
    certReqs: optional(
      oneOf(['CERT_NONE', 'CERT_OPTIONAL', 'CERT_REQUIRED'], {
        description:
          'Whether a minion must show a certificate; all but `CERT_NONE`, the default, require `ca_certs`. The name in it is not the id of the minion.',
      }),
    ),
    sslVersion: optional(
      oneOf(['PROTOCOL_TLS', 'PROTOCOL_TLS_SERVER', 'PROTOCOL_SSLv23', 'PROTOCOL_TLSv1_2'], {
        description: 'Version by the names of Python. Default: TLS 1.2 and later.',
      }),
    ),
    ciphers: optional(text({ description: 'List of ciphers of OpenSSL.' })),
  },
  { check: checkSsl },
);

/** Salt's `ssl`: TLS on the ports of `tcp` and `ws`. Paths are used as they are written. */
export type SslOptions = Static<typeof sslSection> & { readonly certfile: string };

/** Without a certificate no TLS is possible; without `ca_certs` no certificate can be checked. */
function checkSsl({ origin, values, meant }: GivenSection): readonly ConfigError[] {
  const { certReqs } = values;
  const checksPeers = certReqs !== undefined && certReqs !== 'CERT_NONE';
  return [
    ...(meant.has('certfile') ? [] : ['certfile is missing; name the certificate, PEM']),
    ...(checksPeers && !meant.has('caCerts')
      ? ['cert_reqs needs ca_certs, by which certificates are checked; add it']
      : []),
  ].map((problem) => new ConfigError('ERR_OPTION_TYPE', origin, problem));
}

/** A map, or false. */
export const ssl = custom<SslOptions | false>(
  {
    expected:
      'false, or a map with certfile and any of keyfile, ca_certs, cert_reqs (CERT_NONE; ' +
      'CERT_OPTIONAL or CERT_REQUIRED with ca_certs), ssl_version (PROTOCOL_TLS, ' +
      'PROTOCOL_TLS_SERVER, PROTOCOL_SSLv23 or PROTOCOL_TLSv1_2) and ciphers',
    accept: (value) => (value === false ? false : parseValue(sslSection, value)),
    explain: (setting) =>
      sectionEntries(setting.value) === undefined ? [] : refusals(sslSection, setting),
  },
  { anyOf: [{ const: false }, sslSection] },
);

export const transports = ['zeromq', 'tcp', 'ws'] as const;

/** Salt's names of the transports that are served. */
export type TransportName = (typeof transports)[number];

export const transportName = oneOf(transports);

const transportSection = section(
  {
    interface: optional(text()),
    ipv6: optional(flag()),
    publishPort: optional(integer(0, 65_535)),
    retPort: optional(integer(0, 65_535)),
    ssl: optional(ssl),
    zmqFiltering: optional(flag()),
    zmqBacklog: optional(integer(1, 65_535)),
    pubHwm: optional(integer(0, many)),
    tcpKeepalive: optional(flag()),
    tcpKeepaliveIdle: optional(integer(-1, many)),
  },
  { expected: 'a map' },
);

/** Options of one transport over the general ones. */
export type OwnTransportOptions = Static<typeof transportSection>;

/** Salt's `transport_opts`: transports that are served besides `transport`, or otherwise. */
export type TransportOpts = { readonly [Name in TransportName]?: OwnTransportOptions };

/** A map from transports to options of their own. */
export const transportOpts = custom<TransportOpts>(
  {
    expected: `a map of zeromq, tcp or ws to a map with any of ${namesOf(transportSection).join(', ')}`,
    accept: (value) => {
      const opts: { -readonly [Name in keyof TransportOpts]: TransportOpts[Name] } = {};
      const entries = sectionEntries(value);
      for (const [name, given] of entries ?? []) {
        const transport = parseValue(transportName, name);
        const own = isNothing(given) ? {} : parseValue(transportSection, given);
        if (transport === undefined || own === undefined) return undefined;
        opts[transport] = own;
      }
      return entries === undefined ? undefined : opts;
    },
    explain: (setting) =>
      settingsOf(setting).flatMap(([name, inner]) => explainTransport(name, inner)),
  },
  { each: transportSection },
);

function explainTransport(name: string, own: Setting): readonly ConfigError[] {
  if (parseValue(transportName, name) === undefined) {
    return [unknownOption(own.origin, transports, 'ERR_OPTION_TYPE')];
  }
  return isNothing(own.value) ? [] : refusals(transportSection, own);
}

/** Salt's own example has an empty list where a transport has nothing of its own. */
function isNothing(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}
