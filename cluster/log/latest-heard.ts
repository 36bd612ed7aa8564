import type { LogCipher, OpenedMessage } from './cipher.ts';
import type { TransactionLog } from './transaction-log.ts';
import type { LogView } from './view.ts';

/** A member's access to the messages outside the log. */
export interface MemberLink {
  readonly log: TransactionLog;
  readonly view: LogView;
  readonly cipher: LogCipher;
  readonly member: string;
  /** Session of this opening of the store, as recorded in the log. */
  readonly session: string;
}

interface Heard {
  /** Session of the sender, as recorded in the log. */
  readonly session: string;
  readonly sealedBy: string;
  readonly counter: number;
}

/** Detects repeated messages of members outside the log. */
export class LatestHeard {
  readonly #view: LogView;
  readonly #heard = new Map<string, Heard>();

  constructor(view: LogView) {
    this.#view = view;
  }

  /**
   * Whether a message comes from the current session of a member and is newer than all earlier
   * ones.
   * @param session - session that the sender claims
   */
  isNew(member: string, session: string, { session: sealedBy, counter }: OpenedMessage): boolean {
    if (this.#view.state.members[member]?.session !== session) return false;
    const before = this.#heard.get(member);
    const isSame = before?.session === session;
    if (isSame && (before.sealedBy !== sealedBy || counter <= before.counter)) return false;
    this.#heard.set(member, { session, sealedBy, counter });
    return true;
  }
}
