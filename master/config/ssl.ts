import { flag, type OptionKind, oneOf, text } from './option-kinds.ts';
import { readSection, type SectionTable } from './section-kind.ts';

/** Salt's `ssl`: TLS on the ports of `tcp` and `ws`. Paths are taken as they are. */
export interface SslOptions {
  /** `certfile`: the certificate with its chain, PEM. */
  readonly certfile: string;
  /** `keyfile`: its key, PEM. Default: in `certfile`. */
  readonly keyfile?: string;
  /** `ca_certs`: who signs the certificates of minions, PEM. */
  readonly caCerts?: string;
  /**
   * `cert_reqs`: whether a minion has to show a certificate. Default `CERT_NONE`; the others need
   * `ca_certs`. The name in it is not the minion's id.
   */
  readonly certReqs?: 'CERT_NONE' | 'CERT_OPTIONAL' | 'CERT_REQUIRED';
  /** `ssl_version`, by the names of Python. Default: TLS 1.2 and later. */
  readonly sslVersion?:
    | 'PROTOCOL_TLS'
    | 'PROTOCOL_TLS_SERVER'
    | 'PROTOCOL_SSLv23'
    | 'PROTOCOL_TLSv1_2';
  /** `ciphers`: OpenSSL's list. */
  readonly ciphers?: string;
}

const table: SectionTable<SslOptions> = {
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
};

/** Without a certificate no TLS can be spoken; without `ca_certs` nobody's could be checked. */
function parseMap(value: unknown): SslOptions | undefined {
  const { certfile, ...rest } = readSection(table, value) ?? {};
  if (certfile === undefined) return undefined;
  const checksPeers = rest.certReqs !== undefined && rest.certReqs !== 'CERT_NONE';
  return checksPeers && rest.caCerts === undefined ? undefined : { certfile, ...rest };
}
