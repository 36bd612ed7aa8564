/** An enrolment, and the request for one. */

import Type, { type Static } from 'typebox';
import { keyFingerprint } from '#minion-protocol';

const strict = { additionalProperties: false };
const Text = Type.String();
/** Milliseconds since 1970. */
const Time = Type.Number();

/** Lowest protocol version in which a minion is accepted; 0: any. */
const Protocol = Type.Enum([0, 1, 2, 3]);

/**
 * An enrolment: in the store, in answers and for programs. Its states:
 *
 * | state | what may come | what it leads to |
 * |---|---|---|
 * | `open` | a claim with the ticket | `accepted` |
 * | `open`, `accepted` | a report that it failed, the end of its time | `failed` |
 * | `accepted` | the minion's first request that proves its key | `signed-in` |
 * | any but the last two | `retire`, the end of its key | `retired` |
 */
export const EnrolmentSchema = Type.Object({
  /** Names the enrolment, and its ticket: 22 characters. */
  number: Text,
  /** Id of the minion. */
  id: Text,
  project: Text,
  /** Name of the machine in the cloud. */
  instance: Type.Optional(Text),
  /** Address that the ticket must be shown from. */
  address: Type.Optional(Text),
  /**
   * How the machine comes to an accepted key. `claim`: it makes its key and claims for it with the
   * ticket, over TLS. `keys`: it is given a key pair, whose public half is accepted already. `grain`:
   * it shows the ticket as a grain when it signs in, in clear text. `import`: its public key, or the
   * fingerprint of it, was known beforehand.
   */
  by: Type.Enum(['claim', 'keys', 'grain', 'import']),
  state: Type.Enum(['open', 'accepted', 'signed-in', 'failed', 'retired']),
  /** SHA-256 of the minion's key, as hex pairs joined by `:`. Absent: not known yet. */
  fingerprint: Type.Optional(Text),
  protocol: Protocol,
  createdAt: Time,
  /** End of the ticket. Absent: there is none. */
  ticketExpiresAt: Type.Optional(Time),
  /** Time until which the machine is expected to sign in. Absent: it has, or without end. */
  deadline: Type.Optional(Time),
  /** End of the key, and of everything with it. Absent: with the machine's retirement. */
  keyExpiresAt: Type.Optional(Time),
  /** Reason of a failure, for a person. */
  reason: Type.Optional(Text),
});

/** An enrolment; {@link EnrolmentSchema} documents its fields. */
export type Enrolment = Readonly<Static<typeof EnrolmentSchema>>;

/** A value of a minion's configuration. */
type ConfigValue =
  | string
  | number
  | boolean
  | null
  | readonly ConfigValue[]
  | { readonly [name: string]: ConfigValue };

/** Options of a minion by their names in Salt. */
export type MinionConfig = Readonly<Record<string, ConfigValue>>;

const ShortText = Type.String({ minLength: 1, maxLength: 255 });
const Addresses = Type.Array(ShortText, { minItems: 1, maxItems: 16 });
/** A value that YAML cannot hold is not JSON either. */
const Values = Type.Unsafe<MinionConfig>(Type.Record(Type.String(), Type.Unknown()));
const ExpiryTime = Type.Integer({ minimum: 0 });

/** Fields of a request for an enrolment, whoever makes it. */
const requestFields = {
  /** Id of the minion. */
  id: ShortText,
  /** Name of the machine in the cloud, if it is known before the machine starts. Default: any. */
  instance: Type.Optional(ShortText),
  /** Address that the machine will call from, if it is known. Default: any. */
  address: Type.Optional(ShortText),
  /** Whether its user-data reaches the bridge by the metadata agent of its network. Default false. */
  agent: Type.Optional(Type.Boolean()),
  /** Addresses of the masters as this machine reaches them. Default: `enroll: masters`. */
  masters: Type.Optional(Type.Unsafe<readonly string[]>(Addresses)),
  /** See {@link EnrolmentSchema}. Default `claim`. `grain` needs `enroll: grain: true`. */
  by: Type.Optional(Type.Enum(['claim', 'keys', 'grain'])),
  /** Milliseconds since 1970 when its key ends, and all that depends on it. Default: never. */
  expires: Type.Optional(ExpiryTime),
  /** Lowest protocol version in which the minion is accepted. Default: `enroll: protocol`. */
  protocol: Type.Optional(Protocol),
  /**
   * Program that reads the user-data: cloud-init with its module `salt_minion`, anything that runs a
   * shell script, or cloudbase-init. `none`: the machine gets its ticket otherwise. Default
   * `cloud-init`.
   */
  format: Type.Optional(Type.Enum(['cloud-init', 'shell', 'cloudbase-init', 'none'])),
  /** Directory of the minion's configuration, except on Windows. Default `/etc/salt`. */
  configDir: Type.Optional(Type.String({ pattern: '^/', maxLength: 255 })),
  /** User-data that the machine gets besides, of whatever kind. Default: none. */
  beside: Type.Optional(Type.String({ maxLength: 262_144 })),
  /** Further options of the minion. Default: none. */
  config: Type.Optional(Values),
  /** Grains of the minion. Default: none. */
  grains: Type.Optional(Values),
};
/** Seconds that the ticket is valid. Default: `enroll: ticket_lifetime`. */
const Lifetime = Type.Optional(Type.Integer({ minimum: 1, maximum: 86_400 }));

/** Request for the enrolment of a machine. */
export const EnrolRequestSchema = Type.Object(
  {
    ...requestFields,
    lifetimeSeconds: Lifetime,
    /** Owner of the machine: the project in the cloud, or a name of your own. */
    project: ShortText,
  },
  strict,
);

/** Request for the enrolment of a machine; {@link EnrolRequestSchema} documents its fields. */
export type EnrolRequest = Readonly<Static<typeof EnrolRequestSchema>>;

/** Body of a service's request. Its token may name the project. */
export const ServiceEnrolRequestSchema = Type.Object(
  { ...requestFields, lifetime: Lifetime, project: Type.Optional(ShortText) },
  strict,
);

/** A minion whose key is known. */
export const KnownMinionSchema = Type.Object(
  {
    id: ShortText,
    project: ShortText,
    instance: Type.Optional(ShortText),
    /** PEM text of its key. Required without `fingerprint`. */
    publicKey: Type.Optional(Type.String({ maxLength: 16_384 })),
    /** SHA-256 of its key, which is accepted when the minion shows it. */
    fingerprint: Type.Optional(Type.String({ maxLength: 128 })),
    expires: Type.Optional(ExpiryTime),
    protocol: Type.Optional(Protocol),
  },
  strict,
);

/** A minion whose key is known; {@link KnownMinionSchema} documents its fields. */
export type KnownMinion = Readonly<Static<typeof KnownMinionSchema>>;

/** An enrolment that was begun. Nothing of it but the enrolment itself is kept. */
export interface NewEnrolment {
  readonly enrolment: Enrolment;
  /** The ticket alone, for machines that get it otherwise. A secret until it is used. */
  readonly ticket: string;
  /** For the machine; empty with `format: 'none'`. With `by: 'keys'` its private key is in it. */
  readonly userData: string;
}

/** The fingerprint of a key as enrolments hold it: SHA-256, hex pairs joined by `:`. */
export function fingerprintOf(publicKey: string): string {
  return keyFingerprint(publicKey, 'sha256');
}

/** Reads a fingerprint as `salt-key` or `sha256sum` print it. */
export function tryParseFingerprint(text: string): string | undefined {
  const hex = text.replaceAll(':', '').toLowerCase();
  return /^[0-9a-f]{64}$/.test(hex) ? hex.replace(/(..)(?=.)/g, '$1:') : undefined;
}
