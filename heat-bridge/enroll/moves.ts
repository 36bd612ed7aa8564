/** What befalls an enrolment: kept first, then carried out at the keys, then told. */
import type { Admission } from '../../master/index.ts';
import type { Enrolment } from './enrolment.ts';
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
  readonly spent: Pick<SpentTickets, 'add'>;
  readonly admission: Admission;
  /** What ends besides, with whatever an id had; done before anything else is. */
  readonly onRetire: (id: string) => Promise<void>;
  readonly tell: (news: EnrolmentNews) => void;
  readonly now: () => number;
}

/** Milliseconds that a machine has to sign in after its key was accepted. */
const signInMs = 600_000;

/**
 * The transitions of enrolments. All but those that say otherwise are called inside of
 * {@link exclusive}, or of the id's turn otherwise, with what the enrolment is then.
 */
export class EnrolmentMoves {
  readonly #parts: MoveParts;

  constructor(parts: MoveParts) {
    this.#parts = parts;
  }

  /**
   * Runs work on an enrolment as it is when its turn comes: sign-ins of its id, operations on the
   * id's key and other transitions come before or after it.
   */
  exclusive<T>(
    enrolment: Pick<Enrolment, 'id' | 'number'>,
    work: (current: Enrolment | undefined) => Promise<T>,
  ): Promise<T> {
    const { admission, book } = this.#parts;
    // protection: one-transition-at-a-time
    return admission.exclusive(enrolment.id, () => work(book.get(enrolment.number)));
  }

  /**
   * Accepts the key of this fingerprint, shown already or not. The ticket is spent with it; both
   * are durable when it resolves.
   */
  async accept(open: Enrolment, fingerprint: string): Promise<Enrolment> {
    const { book, now } = this.#parts;
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
    return this.signIn(enrolment);
  }

  /** Signed in, if its minion was heard with a proof of its key; else as it was. */
  async signIn(known: Enrolment): Promise<Enrolment> {
    const { book, admission } = this.#parts;
    const { id, fingerprint } = known;
    if (known.state !== 'accepted' || !admission.isHeard(id)) return known;
    if (admission.keyOf(id)?.fingerprint !== fingerprint) return known;
    const { deadline: _, ...rest } = known;
    const enrolment: Enrolment = { ...rest, state: 'signed-in' };
    await book.put(enrolment);
    this.#tell({ what: 'signed-in', enrolment });
    return enrolment;
  }

  /** Called from anywhere when the minion of an id was heard with a proof of its key. */
  async heard(id: string): Promise<void> {
    const { book } = this.#parts;
    const live = book.liveOf(id);
    if (live?.state !== 'accepted') return;
    await this.exclusive(live, async (current) => {
      if (current !== undefined) await this.signIn(current);
    });
  }

  /** Gives an enrolment up, with the key that it brought. */
  async fail(live: Enrolment, reason: string): Promise<void> {
    const { admission } = this.#parts;
    const held = admission.keyOf(live.id);
    // Another key under the id is somebody else's business, and stays.
    const hasOther = held !== undefined && held.fingerprint !== live.fingerprint;
    const end = { ...live, state: 'failed', reason } as const;
    const keepsKey = live.state === 'open' || hasOther;
    // protection: key-of-a-failure
    await this.#end(live, end, { keepsKey });
  }

  /** Gives an enrolment up whose key turned out to be good for nobody; the key is rejected. */
  async quarantine(live: Enrolment, reason: string): Promise<void> {
    await this.#parts.admission.quarantine(live.id);
    const end = { ...live, state: 'failed', reason } as const;
    await this.#end(live, end, { keepsKey: true });
  }

  /** Ends all that an id has, with its enrolment if it has one. */
  async retire(id: string): Promise<void> {
    const { book, admission, onRetire } = this.#parts;
    const live = book.liveOf(id);
    if (live !== undefined) {
      await this.#end(live, { ...live, state: 'retired' }, { keepsKey: false });
      return;
    }
    await onRetire(id);
    await admission.retire(id);
  }

  /** Called from anywhere when the accepted key of an id was deleted, rejected or replaced. */
  async keyLost(id: string): Promise<void> {
    const { book, admission } = this.#parts;
    const live = book.liveOf(id);
    if (live === undefined) return;
    await this.exclusive(live, async (current) => {
      if (current?.state !== 'accepted' && current?.state !== 'signed-in') return;
      const held = admission.keyOf(id);
      if (held?.state === 'accepted' && held.fingerprint === current.fingerprint) return;
      const isJudged = held?.state === 'accepted' || held?.state === 'rejected';
      const reason = `its key was ${isJudged ? 'rejected or replaced' : 'deleted'}`;
      // protection: key-ends-enrolment
      await this.#end(current, { ...current, state: 'retired', reason }, { keepsKey: isJudged });
    });
  }

  /**
   * Makes up for what a crash left undone, before anybody is served. Who was accepted has as long
   * again to sign in: the master may have been away for longer than that.
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
    for (const enrolment of [...book.ending()]) await this.#endLeftKey(enrolment);
  }

  /** Does at the keys what was kept. A key that was not shown yet is known when it is. */
  async #carryOut({ id, fingerprint, protocol }: Enrolment): Promise<void> {
    const { admission } = this.#parts;
    await admission.pin(id, protocol);
    const held = admission.keyOf(id);
    if (held?.state !== 'pending' || held.fingerprint !== fingerprint) return;
    await admission.admit({ id, publicKey: held.publicKey, protocol });
  }

  async #end(
    live: Enrolment,
    over: Enrolment,
    { keepsKey }: { readonly keepsKey: boolean },
  ): Promise<void> {
    const { book, admission, onRetire } = this.#parts;
    const { id } = live;
    // What came of a ticket that nobody used is not there to be ended.
    if (live.state !== 'open' || over.state === 'retired') await onRetire(id);
    if (keepsKey) await book.put(over);
    else await book.putEnd(over);
    await this.#spend(live);
    if (!keepsKey) {
      await admission.retire(id);
      await book.carriedOut(over);
    }
    const { reason } = over;
    const what = over.state === 'failed' ? 'failed' : 'retired';
    this.#tell({ what, enrolment: over, ...(reason === undefined ? {} : { detail: reason }) });
  }

  /** A key whose end was kept and not carried out. */
  async #endLeftKey(over: Enrolment): Promise<void> {
    const { book, admission } = this.#parts;
    const held = admission.keyOf(over.id);
    const isLeft = held === undefined || held.fingerprint === over.fingerprint;
    if (isLeft && book.liveOf(over.id) === undefined) await admission.retire(over.id);
    await book.carriedOut(over);
  }

  #tell(news: EnrolmentNews): void {
    this.#parts.book.announce(news.enrolment);
    this.#parts.tell(news);
  }

  async #spend({ number, ticketExpiresAt }: Enrolment): Promise<void> {
    if (ticketExpiresAt !== undefined) await this.#parts.spent.add(number, ticketExpiresAt);
  }
}
