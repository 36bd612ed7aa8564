import type { LogCipher, OpenedMessage } from './cipher.ts';
import type { TransactionLog } from './transaction-log.ts';
import type { LogView } from './view.ts';

/** Dependencies for sending and receiving messages outside the log. */
export interface MemberLink {
  readonly log: TransactionLog;
  readonly view: LogView;
  readonly cipher: LogCipher;
  readonly member: string;
  /**
   * Session of this member. Each time the member opens its store, it begins a new session. The log
   * records the session.
   */
  readonly session: string;
}

interface Heard {
  /** Session of the sender. The log records the current session of each member. */
  readonly session: string;
  readonly sealedBy: string;
  readonly counter: number;
}

/** Detects repeated and outdated messages that other members sent outside the log. */
export class LatestMessages {
  readonly #view: LogView;
  readonly #heard = new Map<string, Heard>();

  constructor(view: LogView) {
    this.#view = view;
  }

  /**
   * Whether a message is new: it is from the sender's current session, and was sent after all
   * messages received from this session so far.
   * @param session - session of the sender, as the message itself states it
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
