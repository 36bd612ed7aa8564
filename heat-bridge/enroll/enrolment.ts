/** Schemas and types of enrolments, and of requests for them. */

import Type, { type Static } from 'typebox';
import { keyFingerprint } from '#minion-protocol';

const strict = { additionalProperties: false };
const Text = Type.String();
/** Time in milliseconds since 1970. */
const Time = Type.Number();

/** Minimum protocol version of requests that are accepted from a minion. 0 accepts any version. */
const Protocol = Type.Enum([0, 1, 2, 3]);

/**
 * Enrolment, as stored, returned by APIs and passed to programs.
 *
 * A claim with the ticket changes the state from `open` to `accepted`. The minion's first request
 * that proves its key changes the state to `signed-in`. A report of failure, or the deadline,
 * changes `open` and `accepted` to `failed`. If the minion is retired, or its accepted key is
 * deleted, rejected or replaced, the state changes to `retired`, unless it is `failed`.
 */
export const EnrolmentSchema = Type.Object({
  /** Number of the enrolment and of its ticket: an identifier of 22 characters. */
  number: Text,
  /** Id of the minion. */
  id: Text,
  project: Text,
  /** Name of the machine in the cloud. */
  instance: Type.Optional(Text),
  /** Address from which the ticket must be used. */
  address: Type.Optional(Text),
  /**
   * Method of accepting the machine's key. `claim`: the machine generates a key pair, and claims
   * its ticket over TLS. `keys`: the machine receives a key pair whose public key is already
   * accepted. `grain`: the machine sends the ticket as a grain when it signs in, in clear text.
   * `import`: the public key or its fingerprint was known beforehand.
   */
  by: Type.Enum(['claim', 'keys', 'grain', 'import']),
  state: Type.Enum(['open', 'accepted', 'signed-in', 'failed', 'retired']),
  /** SHA-256 of the minion's key, as hex pairs joined by `:`. Absent until the key is known. */
  fingerprint: Type.Optional(Text),
  protocol: Protocol,
  createdAt: Time,
  /** Expiry of the ticket. Absent if there is no ticket. */
  ticketExpiresAt: Type.Optional(Time),
  /** Time until which the machine must sign in. Absent if it has signed in, or has no deadline. */
  deadline: Type.Optional(Time),
  /** Expiry of the key and of all data of the minion. Absent if they do not expire. */
  keyExpiresAt: Type.Optional(Time),
  /** Reason of a failure, in human-readable form. */
  reason: Type.Optional(Text),
});

/** Enrolment; {@link EnrolmentSchema} documents its fields. */
export type Enrolment = Readonly<Static<typeof EnrolmentSchema>>;

/** Value of an option or grain in a minion's configuration. */
type ConfigValue =
  | string
  | number
  | boolean
  | null
  | readonly ConfigValue[]
  | { readonly [name: string]: ConfigValue };

/** Minion options, by their names in Salt. */
export type MinionConfig = Readonly<Record<string, ConfigValue>>;

const ShortText = Type.String({ minLength: 1, maxLength: 255 });
const Addresses = Type.Array(ShortText, { minItems: 1, maxItems: 16 });
/** Options or grains of a minion. The user-data contains them as YAML. */
const Values = Type.Unsafe<MinionConfig>(Type.Record(Type.String(), Type.Unknown()));
const ExpiryTime = Type.Integer({ minimum: 0 });

/** Fields that every request for an enrolment has. */
const requestFields = {
  /** Id of the minion. */
  id: ShortText,
  /**
   * Name of the machine in the cloud. The ticket is bound to it. Default: the ticket is valid for
   * any machine.
   */
  instance: Type.Optional(ShortText),
  /**
   * Address of the machine. The ticket is bound to it. Default: the ticket is valid for any
   * address.
   */
  address: Type.Optional(ShortText),
  /**
   * Whether the machine reaches the bridge through the metadata agent of its network. Default:
   * false.
   */
  agent: Type.Optional(Type.Boolean()),
  /** Addresses at which this machine reaches the masters. Default: `enroll: masters`. */
  masters: Type.Optional(Type.Unsafe<readonly string[]>(Addresses)),
  /**
   * Method of accepting the machine's key. `claim`: the machine generates a key pair, and claims
   * its ticket over TLS. `keys`: the user-data contains a key pair whose public key is already
   * accepted. `grain`: the machine sends the ticket as a grain; this requires `enroll: grain:
   * true`. Default: `claim`.
   */
  by: Type.Optional(Type.Enum(['claim', 'keys', 'grain'])),
  /**
   * Expiry of the key and of all data of the minion, in milliseconds since 1970. Default: never.
   */
  expires: Type.Optional(ExpiryTime),
  /** Minimum protocol version of the minion. Default: `enroll: protocol`. */
  protocol: Type.Optional(Protocol),
  /**
   * Program that reads the user-data. `cloud-init` requires its module `salt_minion`. `shell` is
   * any program that runs a shell script. `none`: the machine receives its ticket in another way.
   * Default: `cloud-init`.
   */
  format: Type.Optional(Type.Enum(['cloud-init', 'shell', 'cloudbase-init', 'none'])),
  /** Directory of the minion's configuration, except on Windows. Default: `/etc/salt`. */
  configDir: Type.Optional(Type.String({ pattern: '^/', maxLength: 255 })),
  /**
   * Other user-data for the machine, in any format. It is merged with the user-data of the bridge.
   * Default: none.
   */
  beside: Type.Optional(Type.String({ maxLength: 262_144 })),
  /** Options of the minion, besides those that the bridge sets. Default: none. */
  config: Type.Optional(Values),
  /** Grains of the minion. Default: none. */
  grains: Type.Optional(Values),
};
/** Validity of the ticket, in seconds. Default: `enroll: ticket_lifetime`. */
const Lifetime = Type.Optional(Type.Integer({ minimum: 1, maximum: 86_400 }));

/** Request for the enrolment of a machine. */
export const EnrolRequestSchema = Type.Object(
  {
    ...requestFields,
    lifetimeSeconds: Lifetime,
    /** Owner of the machine: its project in the cloud, or another name. */
    project: ShortText,
  },
  strict,
);

/** Request for the enrolment of a machine; {@link EnrolRequestSchema} documents its fields. */
export type EnrolRequest = Readonly<Static<typeof EnrolRequestSchema>>;

/**
 * Body of an HTTP request with which a service creates an enrolment. Default of `project`: the
 * project of the token.
 */
export const ServiceEnrolRequestSchema = Type.Object(
  { ...requestFields, lifetime: Lifetime, project: Type.Optional(ShortText) },
  strict,
);

/** Minion whose key is known beforehand. */
export const KnownMinionSchema = Type.Object(
  {
    id: ShortText,
    project: ShortText,
    instance: Type.Optional(ShortText),
    /** Public key in PEM. Required if `fingerprint` is absent. */
    publicKey: Type.Optional(Type.String({ maxLength: 16_384 })),
    /** SHA-256 of the public key. The master accepts the key when the minion presents it. */
    fingerprint: Type.Optional(Type.String({ maxLength: 128 })),
    expires: Type.Optional(ExpiryTime),
    protocol: Type.Optional(Protocol),
  },
  strict,
);

/** Minion whose key is known; {@link KnownMinionSchema} documents its fields. */
export type KnownMinion = Readonly<Static<typeof KnownMinionSchema>>;

/** Result of creating an enrolment. Only `enrolment` is stored. */
export interface NewEnrolment {
  readonly enrolment: Enrolment;
  /** Ticket, for machines that do not get it in user-data. It is secret until it is used. */
  readonly ticket: string;
  /**
   * User-data for the machine. Empty with `format: 'none'`. With `by: 'keys'`, it contains the
   * private key.
   */
  readonly userData: string;
}

/**
 * Returns the fingerprint of a key in the form that enrolments store: SHA-256, as hex pairs joined
 * by `:`.
 */
export function fingerprintOf(publicKey: string): string {
  return keyFingerprint(publicKey, 'sha256');
}

/**
 * Parses a fingerprint that `salt-key` or `sha256sum` printed. Returns `undefined` if it is
 * invalid.
 */
export function tryParseFingerprint(text: string): string | undefined {
  const hex = text.replaceAll(':', '').toLowerCase();
  return /^[0-9a-f]{64}$/.test(hex) ? hex.replace(/(..)(?=.)/g, '$1:') : undefined;
}
