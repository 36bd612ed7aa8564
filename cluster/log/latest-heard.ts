import type { OpenedMessage } from './cipher.ts';
import type { LogView } from './view.ts';

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
