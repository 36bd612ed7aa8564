/** Jobs that a user started. */

import { hash } from 'node:crypto';
import type { UserSubject } from '#acl';
import { createBoundedMap } from '#runtime';

/** Jobs that are remembered, of all users together. */
const capacity = 10_000;

/** Which jobs and calls a user began, by jid; the oldest are forgotten. */
export class OwnJobs {
  readonly #nextJid: () => string;
  readonly #owners = createBoundedMap<string, string>(capacity);

  constructor(nextJid: () => string) {
    this.#nextJid = nextJid;
  }

  /** Notes a job before its first event. @param jid default: a new one @returns its jid */
  begin(subject: UserSubject, jid: string = this.#nextJid()): string {
    this.#owners.set(jid, nameOf(subject));
    return jid;
  }

  isOf(jid: string, subject: UserSubject): boolean {
    return isOwnJid(jid, subject) || this.#owners.get(jid) === nameOf(subject);
  }
}

/** How much the clocks of a client and of a master may differ. */
export const jidSkewMs = 3_600_000;
/** By a client that knows several masters: its own random part, and whose it is. */
const ownJidForm = /^\d{20}_c[0-9a-f]{10}(u[0-9a-f]{16})$/;

/** What the job ids of a user end with, and of nobody else who may not do everything. */
export function suffixOf(subject: UserSubject): string {
  return `u${hash('sha256', `job ids\0${nameOf(subject)}`).slice(0, 16)}`;
}

export function isOwnJid(jid: string | undefined, subject: UserSubject): jid is string {
  return jid !== undefined && ownJidForm.exec(jid)?.[1] === suffixOf(subject);
}

/** The same name by another eauth is somebody else. */
function nameOf({ eauth = '', name }: UserSubject): string {
  return `${eauth}\0${name}`;
}
