import { hash } from 'node:crypto';
import type { UserSubject } from '#acl';
import { FairTable } from '#runtime';
import { userLimits } from './limits.ts';

/**
 * Records which user started each job, and each call of a runner or wheel function. From these
 * records, the master knows which events a user may receive. At the limit, the oldest job of the
 * user with the most jobs is evicted.
 */
export class OwnJobs {
  readonly #nextJid: () => string;
  readonly #owners = new FairTable<string>(userLimits.ownJobs);

  constructor(nextJid: () => string) {
    this.#nextJid = nextJid;
  }

  /**
   * Records a job of a user. Call it before the first event of the job.
   * @param jid - id of the job. Default: a new id
   * @returns the id of the job
   */
  begin(subject: UserSubject, jid: string = this.#nextJid()): string {
    const owner = nameOf(subject);
    this.#owners.trySet(owner, jid, owner);
    return jid;
  }

  isOf(jid: string, subject: UserSubject): boolean {
    return isOwnJid(jid, subject) || this.#owners.peek(jid) === nameOf(subject);
  }
}

/**
 * Maximum difference between the time in a jid that a client chose and the master's clock, in
 * milliseconds. The master rejects a job if the difference is larger.
 */
export const jidSkewMs = 3_600_000;
/**
 * Form of a jid that a client with several masters has generated: time, random part and the suffix
 * of the user. See {@link suffixOf}.
 */
const ownJidForm = /^\d{20}_c[0-9a-f]{10}(u[0-9a-f]{16})$/;

/**
 * Returns the suffix that job ids must have if this user chooses them. Users with full rights may
 * choose any job id.
 */
export function suffixOf(subject: UserSubject): string {
  return `u${hash('sha256', `job ids\0${nameOf(subject)}`).slice(0, 16)}`;
}

export function isOwnJid(jid: string | undefined, subject: UserSubject): jid is string {
  return jid !== undefined && ownJidForm.exec(jid)?.[1] === suffixOf(subject);
}

/**
 * Returns a text that identifies a user. Users with the same name from different backends are
 * different users.
 */
function nameOf({ eauth = '', name }: UserSubject): string {
  return `${eauth}\0${name}`;
}
