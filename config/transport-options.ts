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
          'Whether a minion must present a certificate. All values except `CERT_NONE`, the default, require `ca_certs`. The name in the certificate is not the id of the minion.',
      }),
    ),
    sslVersion: optional(
      oneOf(['PROTOCOL_TLS', 'PROTOCOL_TLS_SERVER', 'PROTOCOL_SSLv23', 'PROTOCOL_TLSv1_2'], {
        description: "Protocol version, by Python's names. Default: TLS 1.2 and later.",
      }),
    ),
    ciphers: optional(text({ description: "Cipher list in OpenSSL's format." })),
  },
  { check: checkSsl },
);

/**
 * Value of Salt's option `ssl`: TLS on the ports of the transports `tcp` and `ws`. Paths are used
 * as written.
 */
export type SslOptions = Static<typeof sslSection> & { readonly certfile: string };

/**
 * Returns an error if `certfile` is missing. Returns another error if client certificates are to be
 * verified, but `ca_certs` is missing.
 */
function checkSsl({ origin, values, meant }: GivenSection): readonly ConfigError[] {
  const { certReqs } = values;
  const checksPeers = certReqs !== undefined && certReqs !== 'CERT_NONE';
  return [
    ...(meant.has('certfile') ? [] : ['certfile is missing: set it to a certificate, PEM']),
    ...(checksPeers && !meant.has('caCerts')
      ? ['cert_reqs requires ca_certs to verify certificates: add it']
      : []),
  ].map((problem) => new ConfigError('ERR_OPTION_TYPE', origin, problem));
}

/** Schema of `ssl`: options of TLS, or false. */
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

/** Salt's names of the supported transports. */
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

/** Options of a single transport, which override the general options. */
export type OwnTransportOptions = Static<typeof transportSection>;

/**
 * Value of Salt's option `transport_opts`: options by transport. Every transport in the map is
 * served, in addition to the transport in the option `transport`.
 */
export type TransportOpts = { readonly [Name in TransportName]?: OwnTransportOptions };

/** Schema of `transport_opts`: a map of transports to their options. */
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

/**
 * Whether a value means that a transport has no options. Salt's documentation writes an empty list
 * for this.
 */
function isNothing(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}
