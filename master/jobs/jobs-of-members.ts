import type { Logger } from 'pino';
import type { PublishKey } from '../auth/index.ts';
import type { OtherMembers } from './dispatcher.ts';
import type { JobCache } from './job-cache.ts';
import type { Addressees, Publisher } from './publisher.ts';

/** Parts of this master that are used for jobs of other cluster members. */
interface JobsOfMembersDeps {
  readonly cache: JobCache;
  readonly publisher: Publisher;
  readonly publishKey: PublishKey;
  /**
   * Returns the recipients of a publication for the minions with these ids, and the time for which
   * transports retain the publication. If `minionIds` is `null`, all subscribers are recipients.
   */
  readonly addresseesOf: (minionIds: readonly string[] | null) => Addressees;
  readonly now: () => number;
  readonly log: Logger;
}

/**
 * Exchanges jobs between the members of a cluster. Code in the folder `cluster/` implements this
 * interface.
 */
export interface JobsOfMembers {
  /**
   * Starts to publish the jobs of other members to the minions of this member.
   * @returns an object that passes jobs of this member to the other members
   */
  open(deps: JobsOfMembersDeps): OtherMembers;
}
