import { hash } from 'node:crypto';
import type { UserSubject } from '#acl';
import { createBoundedMap } from '#runtime';
import { userLimits } from './limits.ts';

/** Jobs and calls that users started, by jid. The oldest are evicted. */
export class OwnJobs {
  readonly #nextJid: () => string;
  readonly #owners = createBoundedMap<string, string>(userLimits.ownJobs);

  constructor(nextJid: () => string) {
    this.#nextJid = nextJid;
  }

  /**
   * Records a job before its first event.
   * @param jid default: a new one
   * @returns its jid
   */
  begin(subject: UserSubject, jid: string = this.#nextJid()): string {
    this.#owners.set(jid, nameOf(subject));
    return jid;
  }

  isOf(jid: string, subject: UserSubject): boolean {
    return isOwnJid(jid, subject) || this.#owners.get(jid) === nameOf(subject);
  }
}

/** Maximum difference between the clocks of a client and a master, in milliseconds. */
export const jidSkewMs = 3_600_000;
/**
 * Form of a jid that a client with several masters generates: a random part and the user's suffix.
 */
const ownJidForm = /^\d{20}_c[0-9a-f]{10}(u[0-9a-f]{16})$/;

/** Returns the suffix of a user's job ids. No other user without full rights may use it. */
export function suffixOf(subject: UserSubject): string {
  return `u${hash('sha256', `job ids\0${nameOf(subject)}`).slice(0, 16)}`;
}

export function isOwnJid(jid: string | undefined, subject: UserSubject): jid is string {
  return jid !== undefined && ownJidForm.exec(jid)?.[1] === suffixOf(subject);
}

/** Returns the key of a user. Equal names from different backends are different users. */
function nameOf({ eauth = '', name }: UserSubject): string {
  return `${eauth}\0${name}`;
}
