/** Transitions of enrolments. Each is stored before its effects are carried out. */

import type { KeyLifecycle } from '#master';
import { StoreError } from '#store';
import type { Enrolment } from './enrolment.ts';
import type { EnrolmentRepository } from './enrolment-repository.ts';
import type { UsedTickets } from './used-tickets.ts';

/**
 * Maximum number of attempts to write, each of which fails if another member of the cluster
 * changed the enrolment first.
 */
const maxTries = 20;

/** Event of an enrolment, for the bus and the audit log. */
export interface EnrolmentEvent {
  readonly what: 'created' | 'accepted' | 'signed-in' | 'failed' | 'retired' | 'alarm';
  readonly enrolment: Enrolment;
  /** Human-readable text. */
  readonly detail?: string;
}

/** Parts that the operations on enrolments share. */
export interface EnrolmentParts {
  readonly book: EnrolmentRepository;
  readonly admission: KeyLifecycle;
  readonly tell: (news: EnrolmentEvent) => void;
  readonly now: () => number;
}

export interface TransitionParts extends EnrolmentParts {
  readonly spent: Pick<UsedTickets, 'add'>;
  /** Ends the data of an id outside of enrolments. Called before anything else ends. */
  readonly onRetire: (id: string) => Promise<void>;
  /** Ends what a project registered for an id, whose ticket ended unused. */
  readonly onRelease: (id: string, project: string) => Promise<void>;
}

/** Time that a machine has to sign in after its key was accepted, in milliseconds. */
const signInMs = 600_000;

/**
 * Transitions of enrolments. Unless stated otherwise, call a method inside {@link exclusive}, or
 * in another exclusive turn of the id, with the current enrolment.
 */
export class EnrolmentTransitions {
  readonly #parts: TransitionParts;

  constructor(parts: TransitionParts) {
    this.#parts = parts;
  }

  /**
   * Runs work on the current enrolment, exclusive of sign-ins of its id, operations on the id's
   * key and other transitions. If another member of the cluster writes first, the work runs again
   * with the new enrolment.
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

  /** Calls {@link retire} in the id's turn. */
  retireInTurn(id: string): Promise<void> {
    return this.#parts.admission.exclusive(id, () => untilAgreed(() => this.retire(id)));
  }

  /**
   * Accepts the key with this fingerprint, whether or not the minion has presented it, and marks
   * the ticket as used. Resolves when both are durable.
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

  /**
   * Marks the enrolment as signed in if its minion has proved its key. Returns it unchanged
   * otherwise.
   */
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
      // Another member of the cluster has recorded the sign-in too.
      if (isSecond(error)) return book.get(known.number) ?? known;
      throw error;
    }
    this.#tell({ what: 'signed-in', enrolment });
    return enrolment;
  }

  /**
   * Records that the minion of an id has proved its key. Can be called outside {@link exclusive}.
   */
  async heard(id: string): Promise<void> {
    const { book } = this.#parts;
    const live = book.liveOf(id);
    if (live?.state !== 'accepted') return;
    await this.exclusive(live, async (current) => {
      if (current !== undefined) await this.signIn(current);
    });
  }

  /** Fails an enrolment, and retires the key that it brought. */
  async fail(live: Enrolment, reason: string): Promise<void> {
    const { admission } = this.#parts;
    const held = admission.keyOf(live.id);
    // Another key under the id does not belong to the enrolment, and stays.
    const hasOther = held !== undefined && held.fingerprint !== live.fingerprint;
    const end = { ...live, state: 'failed', reason } as const;
    const keepsKey = live.state === 'open' || hasOther;
    await this.#end(live, end, { keepsKey });
  }

  /** Fails an enrolment whose key cannot be trusted; the key is rejected. */
  async quarantine(live: Enrolment, reason: string): Promise<void> {
    await this.#parts.admission.quarantine(live.id);
    const end = { ...live, state: 'failed', reason } as const;
    await this.#end(live, end, { keepsKey: true });
  }

  /** Retires an id with all its data, and its enrolment if it has one. */
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

  /**
   * Retires an enrolment whose accepted key was deleted, rejected or replaced. Can be called
   * outside {@link exclusive}.
   */
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
   * Completes after a crash what was stored but not carried out, before requests are served.
   * Accepted minions get a new deadline to sign in, because the master may have been down for
   * longer.
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

  /**
   * Marks the tickets of all used enrolments as used, before requests are served. Their enrolments
   * may come from another member.
   */
  async resumeTickets(): Promise<void> {
    const used = [...this.#parts.book.all()].filter(({ state }) => state !== 'open');
    await Promise.all(used.map((it) => this.#spend(it)));
  }

  /**
   * Marks the ticket as used on this member too, after another member of the cluster wrote the
   * enrolment.
   */
  async followed(enrolment: Enrolment): Promise<void> {
    if (enrolment.state !== 'open') await this.#spend(enrolment);
  }

  /** Completes what a failed member of the cluster stored but did not carry out. */
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

  /**
   * Carries out the stored acceptance. If the minion has not presented its key yet, the key is
   * accepted when it does.
   */
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
    const { book, admission, onRetire, onRelease } = this.#parts;
    const { id, number, project } = live;
    if (live.state !== 'open' || over.state === 'retired') await onRetire(id);
    // The id may become a guest of another project, unless a newer ticket replaced this one.
    else if (book.liveOf(id)?.number === number) await onRelease(id, project);
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

  /** Retires the key of an enrolment whose end was stored but not carried out. */
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

/** Whether another member of the cluster wrote first. */
function isSecond(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'ERR_REVISION';
}
