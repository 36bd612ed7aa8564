/** Options `saltbridge: bridge: enroll:`. */

import Type from 'typebox';
import type { MasterConfig } from '#config';
import { parseSection } from '../options.ts';

const EnrollSection = Type.Object(
  {
    /** Addresses of the masters as machines reach them; without them nothing is enrolled by ticket. */
    masters: Type.Optional(Type.Array(Type.String({ minLength: 1 }), { minItems: 1 })),
    /** Where machines reach the HTTP API: `https://…`. */
    url: Type.Optional(Type.String({ minLength: 1 })),
    /** File with the certificate that the API shows, PEM. Default: the API's `ssl_crt`. */
    certificate: Type.Optional(Type.String({ minLength: 1 })),
    /** Seconds that a ticket is good for. Default 1800. */
    ticket_lifetime: Type.Optional(Type.Integer({ minimum: 1, maximum: 86_400 })),
    /** Lowest protocol version that enrolled minions are heard in. Default 3. */
    protocol: Type.Optional(Type.Integer({ minimum: 0, maximum: 3 })),
    /** Take tickets as grains, which travel in clear text. Default false. */
    grain: Type.Optional(Type.Boolean()),
    /** Enrolments that may wait for their machine. Default 10000. */
    max_open: Type.Optional(Type.Integer({ minimum: 1 })),
    /** Bits of key pairs for machines. Default 2048. */
    key_bits: Type.Optional(Type.Integer({ minimum: 2048, maximum: 8192 })),
    /** Key pairs that are made before they are asked for. Default 0. */
    prepared_keys: Type.Optional(Type.Integer({ minimum: 0, maximum: 10_000 })),
  },
  { additionalProperties: false },
);

/** Options of enrolment, with their defaults. */
export type EnrollOptions = Readonly<ReturnType<typeof parseEnrollOptions>>;

const protocols = [0, 1, 2, 3] as const;

/**
 * The options of a section.
 * @param value as it is written; `undefined`: it is not there
 * @param config the master's, for the certificate that its HTTP API shows
 * @throws BridgeError ERR_BRIDGE_OPTIONS
 */
export function parseEnrollOptions(
  value: unknown,
  config: Pick<MasterConfig, 'api' | 'restCherrypy'>,
) {
  const given = parseSection('bridge:enroll', EnrollSection, value ?? {});
  return {
    /** Whether there is such a section. */
    isOn: value !== undefined,
    masters: given.masters ?? [],
    url: given.url,
    /** Path of the certificate. */
    certificate: given.certificate ?? (config.api ?? config.restCherrypy)?.sslCrt,
    ticketLifetimeMs: (given.ticket_lifetime ?? 1800) * 1000,
    protocol: protocols[given.protocol ?? 3] ?? 3,
    takesGrains: given.grain ?? false,
    maxOpen: given.max_open ?? 10_000,
    keyBits: given.key_bits ?? 2048,
    preparedKeys: given.prepared_keys ?? 0,
  };
}
