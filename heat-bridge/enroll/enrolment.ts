/** An enrolment: a machine on its way to being a minion. */

/** How a machine comes to an accepted key. */
export type EnrolmentWay =
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

/** States in which the id is the enrolment's. */
export function isLive({ state }: Enrolment): boolean {
  return state === 'open' || state === 'accepted' || state === 'signed-in';
}
