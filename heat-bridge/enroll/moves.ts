/** What befalls an enrolment: kept first, then carried out at the keys, then told. */
import type { Admission } from '../../master/index.ts';
import { type Enrolment, isLive } from './enrolment.ts';
import type { EnrolmentBook } from './enrolment-book.ts';
import type { SpentTickets } from './spent-tickets.ts';

/** What is told of an enrolment, on the bus and in the audit log. */
export interface EnrolmentNews {
  readonly what: 'created' | 'accepted' | 'signed-in' | 'failed' | 'retired' | 'alarm';
  readonly enrolment: Enrolment;
  /** For a person. */
  readonly detail?: string;
}

/** What {@link EnrolmentMoves} needs. */
export interface MoveParts {
  readonly book: EnrolmentBook;
  readonly spent: SpentTickets;
  readonly admission: Admission;
  /** What ends besides, with whatever an id had; done before anything else is. */
  readonly onRetire: (id: string) => Promise<void>;
  readonly tell: (news: EnrolmentNews) => void;
  readonly now: () => number;
}

/** Milliseconds that a machine has to sign in after its key was accepted. */
const signInMs = 600_000;

export class EnrolmentMoves {
  readonly #parts: MoveParts;

  constructor(parts: MoveParts) {
    this.#parts = parts;
  }

  /**
   * Accepts the key of this fingerprint, shown already or not. The ticket is spent with it; both
   * are durable when it resolves.
   */
  async accept(open: Enrolment, fingerprint: string): Promise<Enrolment> {
    const { book, admission, now } = this.#parts;
    const { deadline } = open;
    const enrolment: Enrolment = {
      ...open,
      state: 'accepted',
      fingerprint,
      ...(deadline === undefined ? {} : { deadline: Math.max(deadline, now() + signInMs) }),
    };
    await book.put(enrolment);
    await this.#spend(open);
    await this.#carryOut(enrolment);
    this.#tell({ what: 'accepted', enrolment });
    if (admission.isHeard(enrolment.id)) await this.signIn(enrolment.id);
    return enrolment;
  }

  /** Notes that the minion of an id was heard with a proof of its key. */
  async signIn(id: string): Promise<void> {
    const { book, admission } = this.#parts;
    const known = book.liveOf(id);
    if (known?.state !== 'accepted') return;
    if (admission.keyOf(id)?.fingerprint !== known.fingerprint) return;
    const { deadline: _, ...rest } = known;
    const enrolment: Enrolment = { ...rest, state: 'signed-in' };
    await book.put(enrolment);
    this.#tell({ what: 'signed-in', enrolment });
  }

  /** Gives an enrolment up, with the key that it brought. */
  async fail(live: Enrolment, reason: string): Promise<void> {
    const { book, admission, onRetire } = this.#parts;
    if (live.state !== 'open') await onRetire(live.id);
    const enrolment: Enrolment = { ...live, state: 'failed', reason };
    await book.put(enrolment);
    await this.#spend(live);
    // What came of a ticket that nobody used is not there to be ended.
    if (live.state !== 'open') await admission.retire(live.id);
    this.#tell({ what: 'failed', enrolment, detail: reason });
  }

  /** Ends all that an id has, with its enrolment if it has one. */
  async retire(id: string): Promise<void> {
    const { book, admission, onRetire } = this.#parts;
    await onRetire(id);
    const live = book.liveOf(id);
    if (live === undefined) return admission.retire(id);
    const enrolment: Enrolment = { ...live, state: 'retired' };
    await book.put(enrolment);
    await this.#spend(live);
    await admission.retire(id);
    this.#tell({ what: 'retired', enrolment });
    return undefined;
  }

  /**
   * Makes up for what a crash left undone. Who was accepted has as long again to sign in: the
   * master may have been away for longer than that.
   */
  async resume(): Promise<void> {
    const { book, now } = this.#parts;
    const all = [...book.all()];
    await Promise.all(all.filter(({ state }) => state !== 'open').map((it) => this.#spend(it)));
    const accepted = all.filter(({ state }) => state === 'accepted');
    const waiting = accepted.filter(({ deadline }) => deadline !== undefined);
    if (waiting.length > 0) {
      await book.put(...waiting.map((it) => ({ ...it, deadline: now() + signInMs })));
    }
    for (const enrolment of accepted) await this.#carryOut(enrolment);
    for (const enrolment of all) {
      if (!isLive(enrolment) && enrolment.fingerprint !== undefined)
        await this.#endLeftKey(enrolment);
    }
  }

  /** Does at the keys what was kept. A key that was not shown yet is known when it is. */
  async #carryOut({ id, fingerprint, protocol }: Enrolment): Promise<void> {
    const { admission } = this.#parts;
    await admission.pin(id, protocol);
    const held = admission.keyOf(id);
    if (held?.state !== 'pending' || held.fingerprint !== fingerprint) return;
    await admission.admit({ id, publicKey: held.publicKey, protocol });
  }

  /** A key whose end was kept and not carried out. */
  async #endLeftKey({ id, fingerprint }: Enrolment): Promise<void> {
    const { book, admission } = this.#parts;
    const isLeft = admission.keyOf(id)?.fingerprint === fingerprint;
    if (isLeft && book.liveOf(id) === undefined) await admission.retire(id);
  }

  #tell(news: EnrolmentNews): void {
    this.#parts.book.announce(news.enrolment);
    this.#parts.tell(news);
  }

  async #spend({ number, ticketExpiresAt }: Enrolment): Promise<void> {
    if (ticketExpiresAt !== undefined) await this.#parts.spent.add(number, ticketExpiresAt);
  }
}
