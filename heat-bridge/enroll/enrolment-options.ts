/** Options in the section `saltbridge: bridge: enroll:`. */

import Type from 'typebox';
import type { MasterConfig } from '#config';
import { parseSection } from '../options.ts';

const EnrollSection = Type.Object(
  {
    /**
     * Addresses at which machines reach the masters. If not set, machines cannot be enrolled by
     * ticket.
     */
    masters: Type.Optional(Type.Array(Type.String({ minLength: 1 }), { minItems: 1 })),
    /** URL at which machines reach the HTTP API: `https://…`. */
    url: Type.Optional(Type.String({ minLength: 1 })),
    /** File with the certificate of the API, in PEM. Default: the API's `ssl_crt`. */
    certificate: Type.Optional(Type.String({ minLength: 1 })),
    /** Validity of a ticket, in seconds. Default: 1800. */
    ticket_lifetime: Type.Optional(Type.Integer({ minimum: 1, maximum: 86_400 })),
    /** Lowest protocol version that enrolled minions may use. Default: 3. */
    protocol: Type.Optional(Type.Integer({ minimum: 0, maximum: 3 })),
    /**
     * Whether to accept tickets that minions send as a grain. Grains are sent in clear text.
     * Default: false.
     */
    grain: Type.Optional(Type.Boolean()),
    /** Maximum number of open enrolments, whose tickets are unused. Default: 10000. */
    max_open: Type.Optional(Type.Integer({ minimum: 1 })),
    /** Maximum number of open enrolments of one project. Default: 2000. */
    max_open_per_project: Type.Optional(Type.Integer({ minimum: 1 })),
    /** Size of key pairs for machines, in bits. Default: 2048. */
    key_bits: Type.Optional(Type.Integer({ minimum: 2048, maximum: 8192 })),
    /** Number of key pairs that are generated in advance. Default: 0. */
    prepared_keys: Type.Optional(Type.Integer({ minimum: 0, maximum: 10_000 })),
  },
  { additionalProperties: false },
);

/** Options of enrolment, with their defaults. */
export type EnrollOptions = Readonly<ReturnType<typeof parseEnrollOptions>>;

const protocols = [0, 1, 2, 3] as const;

/**
 * Parses the section into options.
 * @param value - the section, or `undefined` if it is absent
 * @param config - configuration of the master, for the certificate of its HTTP API
 * @throws BridgeError ERR_BRIDGE_OPTIONS
 */
export function parseEnrollOptions(
  value: unknown,
  config: Pick<MasterConfig, 'api' | 'restCherrypy'>,
) {
  const given = parseSection('bridge:enroll', EnrollSection, value ?? {});
  return {
    /** Whether the section is present, so that enrolment is on. */
    isOn: value !== undefined,
    masters: given.masters ?? [],
    url: given.url,
    /** Path of the API's certificate. */
    certificate: given.certificate ?? (config.api ?? config.restCherrypy)?.sslCrt,
    ticketLifetimeMs: (given.ticket_lifetime ?? 1800) * 1000,
    protocol: protocols[given.protocol ?? 3] ?? 3,
    takesGrains: given.grain ?? false,
    maxOpen: given.max_open ?? 10_000,
    maxOpenPerProject: given.max_open_per_project ?? 2_000,
    keyBits: given.key_bits ?? 2048,
    preparedKeys: given.prepared_keys ?? 0,
  };
}
