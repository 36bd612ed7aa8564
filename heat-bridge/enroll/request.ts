/** What is asked for, and what one gets. */
import type { Enrolment, EnrolmentWay } from './enrolment.ts';
import type { MinionConfig } from './user-data/minion-config.ts';
import type { UserDataFormat } from './user-data/user-data.ts';

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
  /** Default `claim`. `grain` needs `enroll: grain: true`. */
  readonly by?: Exclude<EnrolmentWay, 'import'>;
  /** Seconds that the ticket is good for. Default: `enroll: ticket_lifetime`. */
  readonly lifetime?: number;
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
