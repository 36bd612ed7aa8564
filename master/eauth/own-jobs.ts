import type { UserSubject } from '../../acl/index.ts';

/** Jobs that are remembered, of all users together. */
const capacity = 10_000;

/** Which jobs and calls a user began, by jid; the oldest are forgotten. */
export class OwnJobs {
  readonly #nextJid: () => string;
  readonly #owners = new Map<string, string>();

  constructor(nextJid: () => string) {
    this.#nextJid = nextJid;
  }

  /** Notes a job before its first event. @param jid default: a new one @returns its jid */
  begin(subject: UserSubject, jid: string = this.#nextJid()): string {
    this.#owners.set(jid, nameOf(subject));
    if (this.#owners.size > capacity) {
      const [oldest] = this.#owners.keys();
      if (oldest !== undefined) this.#owners.delete(oldest);
    }
    return jid;
  }

  isOf(jid: string, subject: UserSubject): boolean {
    return this.#owners.get(jid) === nameOf(subject);
  }
}

/** The same name by another eauth is somebody else. */
function nameOf({ eauth = '', name }: UserSubject): string {
  return `${eauth}\0${name}`;
}
