/** Transitions of enrolments: each is stored before anything follows from it. */

import type { KeyLifecycle } from '#master';
import { StoreError } from '#store';
import type { Enrolment } from './enrolment.ts';
import type { EnrolmentRepository } from './enrolment-repository.ts';
import type { UsedTickets } from './used-tickets.ts';

/** Each of them fails because another member of the cluster has made something else of an enrolment. */
const maxTries = 20;

/** What is told of an enrolment, on the bus and in the audit log. */
export interface EnrolmentEvent {
  readonly what: 'created' | 'accepted' | 'signed-in' | 'failed' | 'retired' | 'alarm';
  readonly enrolment: Enrolment;
  /** For a person. */
  readonly detail?: string;
}

/** Parts that the operations of enrolments share. */
export interface EnrolmentParts {
  readonly book: EnrolmentRepository;
  readonly admission: KeyLifecycle;
  readonly tell: (news: EnrolmentEvent) => void;
  readonly now: () => number;
}

export interface TransitionParts extends EnrolmentParts {
  readonly spent: Pick<UsedTickets, 'add'>;
  /** Ends what an id has elsewhere, before anything else is done. */
  readonly onRetire: (id: string) => Promise<void>;
}

/** Milliseconds that a machine has to sign in after its key was accepted. */
const signInMs = 600_000;

/**
 * The transitions of enrolments. All but those that say otherwise are called inside of
 * {@link exclusive}, or of the id's turn otherwise, with what the enrolment is then.
 */
export class EnrolmentTransitions {
  readonly #parts: TransitionParts;

  constructor(parts: TransitionParts) {
    this.#parts = parts;
  }

  /**
   * Runs work on an enrolment as it is when its turn comes: sign-ins of its id, operations on the
   * id's key and other transitions come before or after it. Where another member of the cluster is
   * first, it runs again with what the enrolment is then.
   */
  exclusive<T>(
    enrolment: Pick<Enrolment, 'id' | 'number'>,
    work: (current: Enrolment | undefined) => Promise<T>,
  ): Promise<T> {
    const { admission, book } = this.#parts;
    return admission.exclusive(enrolment.id, () =>
      untilAgreed(() => work(book.get(enrolment.number))),
    );
  }

  /** {@link retire} when the id's turn comes. */
  retireInTurn(id: string): Promise<void> {
    return this.#parts.admission.exclusive(id, () => untilAgreed(() => this.retire(id)));
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
    await this.#acceptKey(enrolment);
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
    try {
      await book.put(enrolment);
    } catch (error) {
      // Another member of the cluster has heard it as well.
      if (isSecond(error)) return book.get(known.number) ?? known;
      throw error;
    }
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
    for (const enrolment of accepted) await this.#acceptKey(enrolment);
    for (const enrolment of [...book.ending()]) await this.#endLeftKey(enrolment);
  }

  /** Remembers the tickets that are used, wherever they were, before anybody is served. */
  async resumeTickets(): Promise<void> {
    const used = [...this.#parts.book.all()].filter(({ state }) => state !== 'open');
    await Promise.all(used.map((it) => this.#spend(it)));
  }

  /** Another member of the cluster has written it: its ticket is used here too. */
  async followed(enrolment: Enrolment): Promise<void> {
    if (enrolment.state !== 'open') await this.#spend(enrolment);
  }

  /** Makes up for what a member of the cluster that is gone left undone. */
  async takeOver(): Promise<void> {
    const { book, now } = this.#parts;
    for (const enrolment of [...book.all()].filter(({ state }) => state === 'accepted')) {
      await this.exclusive(enrolment, async (current) => {
        if (current?.state !== 'accepted') return;
        const deadline = now() + signInMs;
        if (current.deadline !== undefined) await book.put({ ...current, deadline });
        await this.#acceptKey(current);
      });
    }
    for (const enrolment of [...book.ending()]) {
      await this.exclusive(enrolment, () => this.#endLeftKey(enrolment));
    }
  }

  /** Does at the keys what was kept. A key that was not shown yet is known when it is. */
  async #acceptKey({ id, fingerprint, protocol }: Enrolment): Promise<void> {
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
      await book.endCompleted(over);
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
    await book.endCompleted(over);
  }

  #tell(news: EnrolmentEvent): void {
    this.#parts.book.announce(news.enrolment);
    this.#parts.tell(news);
  }

  async #spend({ number, ticketExpiresAt }: Enrolment): Promise<void> {
    if (ticketExpiresAt !== undefined) await this.#parts.spent.add(number, ticketExpiresAt);
  }
}

async function untilAgreed<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await work();
    } catch (error) {
      if (!isSecond(error) || tries === maxTries) throw error;
    }
  }
}

/** Another member of the cluster was first. */
function isSecond(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'ERR_REVISION';
}
