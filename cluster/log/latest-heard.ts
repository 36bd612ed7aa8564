import type { LogCipher, OpenedMessage } from './cipher.ts';
import type { TransactionLog } from './transaction-log.ts';
import type { LogView } from './view.ts';

/** A member's side of what members send each other beside the log. */
export interface MemberLink {
  readonly log: TransactionLog;
  readonly view: LogView;
  readonly cipher: LogCipher;
  readonly member: string;
  /** Of this opening, as the log has it. */
  readonly session: string;
}

interface Heard {
  /** Of its opening, as the log has it. */
  readonly session: string;
  readonly sealedBy: string;
  readonly counter: number;
}

/** Tells what a member says beside the log from what comes again of it. */
export class LatestHeard {
  readonly #view: LogView;
  readonly #heard = new Map<string, Heard>();

  constructor(view: LogView) {
    this.#view = view;
  }

  /**
   * Whether it comes from the present opening of a member, and nothing as late was heard of it.
   * @param session - of that opening, as the sender says
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
