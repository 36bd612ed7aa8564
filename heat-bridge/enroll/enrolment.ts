/** An enrolment, and the request for one. */

import { keyFingerprint } from '#minion-protocol';

/** How a machine comes to an accepted key. */
type EnrolmentWay =
  /** It makes its key and claims for it with the ticket, over TLS. */
  | 'claim'
  /** It is given a key pair, whose public half is accepted already. */
  | 'keys'
  /** It shows the ticket as a grain when it signs in, in clear text. */
  | 'grain'
  /** Its public key, or the fingerprint of it, was known beforehand. */
  | 'import';

/**
 * | state | what may come | what it leads to |
 * |---|---|---|
 * | `open` | a claim with the ticket | `accepted` |
 * | `open`, `accepted` | a report that it failed, the end of its time | `failed` |
 * | `accepted` | the minion's first request that proves its key | `signed-in` |
 * | any but the last two | `retire`, the end of its key | `retired` |
 */
export type EnrolmentState = 'open' | 'accepted' | 'signed-in' | 'failed' | 'retired';

/** What is known of an enrolment. */
export interface Enrolment {
  /** Names the enrolment, and its ticket: 22 characters. */
  readonly number: string;
  /** Id of the minion. */
  readonly id: string;
  readonly project: string;
  /** What the cloud calls the machine. */
  readonly instance?: string;
  /** Address that the ticket must be shown from. */
  readonly address?: string;
  readonly by: EnrolmentWay;
  readonly state: EnrolmentState;
  /** SHA-256 of the minion's key, as hex pairs joined by `:`. Absent: not known yet. */
  readonly fingerprint?: string;
  /** Lowest protocol version that the minion is heard in; 0: any. */
  readonly protocol: 0 | 1 | 2 | 3;
  /** Milliseconds since 1970, as all times here. */
  readonly createdAt: number;
  /** Until when the ticket is good. Absent: there is none. */
  readonly ticketExpiresAt?: number;
  /** Until when the machine is expected to sign in. Absent: it has, or without end. */
  readonly deadline?: number;
  /** When the key ends, and everything with it. Absent: with the machine's retirement. */
  readonly keyExpiresAt?: number;
  /** Why it failed, for a person. */
  readonly reason?: string;
}

/** A machine that is to become a minion. */
export interface EnrolRequest {
  /** Id of the minion. */
  readonly id: string;
  /** Whose machine it is: the cloud's project, or a name of your own. */
  readonly project: string;
  /** What the cloud calls the machine, where that is known before it starts. Default: any. */
  readonly instance?: string;
  /** Address that it will be heard from, where that is known. Default: any. */
  readonly address?: string;
  /** Whether its user-data reaches the bridge by the metadata agent of its network. Default false. */
  readonly agent?: boolean;
  /** Addresses of the masters as this machine reaches them. Default: `enroll: masters`. */
  readonly masters?: readonly string[];
  /** Default `claim`. `grain` needs `enroll: grain: true`. */
  readonly by?: Exclude<EnrolmentWay, 'import'>;
  /** How long the ticket is good for. Default: `enroll: ticket_lifetime`. */
  readonly lifetimeSeconds?: number;
  /** Milliseconds since 1970 when its key ends, and all that hangs on it. Default: never. */
  readonly expires?: number;
  /** Lowest protocol version that the minion is heard in. Default: `enroll: protocol`. */
  readonly protocol?: 0 | 1 | 2 | 3;
  /** What reads the user-data; `none`: the machine gets its ticket otherwise. Default `cloud-init`. */
  readonly format?: UserDataFormat | 'none';
  /** Where the minion's configuration lies, but on Windows. Default `/etc/salt`. */
  readonly configDir?: string;
  /** User-data that the machine gets besides, of whatever kind. Default: none. */
  readonly beside?: string;
  /** More options of the minion. Default: none. */
  readonly config?: MinionConfig;
  /** Its grains. Default: none. */
  readonly grains?: MinionConfig;
}

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

/**
 * What reads user-data on the machine: cloud-init with its module `salt_minion`; anything that runs
 * a shell script; cloudbase-init.
 */
export type UserDataFormat = 'cloud-init' | 'shell' | 'cloudbase-init';
