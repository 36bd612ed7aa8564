import type { Logger } from 'pino';
import type { PublishKey } from '../auth/index.ts';
import type { OtherMembers } from './dispatcher.ts';
import type { JobCache } from './job-cache.ts';
import type { Addressees, Publisher } from './publisher.ts';

/** Parts of this master that the jobs of other cluster members use. */
interface JobsOfMembersDeps {
  readonly cache: JobCache;
  readonly publisher: Publisher;
  readonly publishKey: PublishKey;
  /** Returns the addressees of a publication for these ids. `null` stands for all subscribers. */
  readonly addresseesOf: (minionIds: readonly string[] | null) => Addressees;
  readonly now: () => number;
  readonly log: Logger;
}

/** Jobs that the members of a cluster share. The room `cluster` implements it. */
export interface JobsOfMembers {
  /** Starts publishing the jobs of other members here, and this member's jobs there. */
  open(deps: JobsOfMembersDeps): OtherMembers;
}
