/**
 * Transitions of enrolments between states. A transition is stored before its effects are carried
 * out, so that they can be repeated after a crash.
 */

import type { KeyLifecycle } from '#master';
import { isConflict, retryConflicts } from '#store';
import { ownerNameOfProject } from '../owner-name.ts';
import type { Enrolment } from './enrolment.ts';
import type { EnrolmentRepository } from './enrolment-repository.ts';
import type { UsedTickets } from './used-tickets.ts';

/**
 * Maximum number of attempts to store a transition. An attempt fails if another cluster member has
 * changed the enrolment in the meantime.
 */
const maxTries = 20;

/** Event of an enrolment, for the bus and the audit log. */
export interface EnrolmentEvent {
  readonly what: 'created' | 'accepted' | 'signed-in' | 'failed' | 'retired' | 'alarm';
  readonly enrolment: Enrolment;
  /** Additional information for operators, in human-readable form. */
  readonly detail?: string;
}

/** Repository, key lifecycle, event receiver and clock that all operations on enrolments use. */
export interface EnrolmentParts {
  readonly repository: EnrolmentRepository;
  readonly admission: KeyLifecycle;
  readonly tell: (news: EnrolmentEvent) => void;
  readonly now: () => number;
}

export interface TransitionParts extends EnrolmentParts {
  readonly spent: Pick<UsedTickets, 'add'>;
  /**
   * Removes everything that other parts of the bridge store about an id. Called before the key is
   * removed.
   */
  readonly onRetire: (id: string) => Promise<void>;
  /**
   * Removes the data that an owner has registered for a minion id, for example handles. Called when
   * the ticket of this owner ends unused, and no newer ticket for the id exists.
   */
  readonly onRelease: (id: string, owner: string) => Promise<void>;
}

/** Maximum time between the acceptance of a key and the sign-in of the machine, in milliseconds. */
const signInMs = 600_000;

/**
 * State changes of enrolments. Unless a method states otherwise, its caller must hold the lock of
 * the minion id, for example through {@link exclusive}, and must pass the current enrolment.
 */
export class EnrolmentTransitions {
  readonly #parts: TransitionParts;

  constructor(parts: TransitionParts) {
    this.#parts = parts;
  }

  /**
   * Runs a function with the current enrolment of an id. In the meantime, no minion can sign in
   * with the id, and no other operation on its key or enrolment runs. If another cluster member
   * changes the enrolment first, the function runs again.
   */
  exclusive<T>(
    enrolment: Pick<Enrolment, 'id' | 'number'>,
    work: (current: Enrolment | undefined) => Promise<T>,
  ): Promise<T> {
    const { admission, repository } = this.#parts;
    return admission.exclusive(enrolment.id, () =>
      retryConflicts(() => work(repository.get(enrolment.number)), maxTries),
    );
  }

  /** Calls {@link retire} as an exclusive operation on the id. */
  retireInTurn(id: string): Promise<void> {
    return this.#parts.admission.exclusive(id, () =>
      retryConflicts(() => this.retire(id), maxTries),
    );
  }

  /**
   * Accepts the key with this fingerprint, even if the minion has not presented it yet, and marks
   * the ticket as used. Resolves when both changes are durable.
   */
  async accept(open: Enrolment, fingerprint: string): Promise<Enrolment> {
    const { repository, now } = this.#parts;
    const { deadline } = open;
    const enrolment: Enrolment = {
      ...open,
      state: 'accepted',
      fingerprint,
      ...(deadline === undefined ? {} : { deadline: Math.max(deadline, now() + signInMs) }),
    };
    await repository.put(enrolment);
    await this.#spend(open);
    await this.#acceptKey(enrolment);
    this.#tell({ what: 'accepted', enrolment });
    return this.signIn(enrolment);
  }

  /**
   * Marks the enrolment as signed in if its minion has proved that it has the key. Otherwise
   * returns the enrolment unchanged.
   */
  async signIn(known: Enrolment): Promise<Enrolment> {
    const { repository, admission } = this.#parts;
    const { id, fingerprint } = known;
    if (known.state !== 'accepted' || !admission.isHeard(id)) return known;
    if (admission.keyOf(id)?.fingerprint !== fingerprint) return known;
    const { deadline: _, ...rest } = known;
    const enrolment: Enrolment = { ...rest, state: 'signed-in' };
    try {
      await repository.put(enrolment);
    } catch (error) {
      // Another cluster member has already recorded the sign-in.
      if (isConflict(error)) return repository.get(known.number) ?? known;
      throw error;
    }
    this.#tell({ what: 'signed-in', enrolment });
    return enrolment;
  }

  /**
   * Marks the accepted enrolment of an id as signed in. Call it when the minion has proved
   * possession of its key. May be called outside of {@link exclusive}.
   */
  async heard(id: string): Promise<void> {
    const { repository } = this.#parts;
    const live = repository.liveOf(id);
    if (live?.state !== 'accepted') return;
    await this.exclusive(live, async (current) => {
      if (current !== undefined) await this.signIn(current);
    });
  }

  /**
   * Marks an enrolment as failed, and retires the key that was accepted for it. Retires no key if
   * none was accepted yet, or if the id has another key now.
   */
  async fail(live: Enrolment, reason: string): Promise<void> {
    const { admission } = this.#parts;
    const held = admission.keyOf(live.id);
    // If the id has a key that does not belong to this enrolment, the key is not retired.
    const hasOther = held !== undefined && held.fingerprint !== live.fingerprint;
    const end = { ...live, state: 'failed', reason } as const;
    const keepsKey = live.state === 'open' || hasOther;
    await this.#end(live, end, { keepsKey });
  }

  /** Marks an enrolment as failed, and rejects its key, because two machines used its ticket. */
  async quarantine(live: Enrolment, reason: string): Promise<void> {
    await this.#parts.admission.quarantine(live.id);
    const end = { ...live, state: 'failed', reason } as const;
    await this.#end(live, end, { keepsKey: true });
  }

  /** Retires an id with all its data, and ends its enrolment. */
  async retire(id: string): Promise<void> {
    const { repository, admission, onRetire } = this.#parts;
    const live = repository.liveOf(id);
    if (live !== undefined) {
      await this.#end(live, { ...live, state: 'retired' }, { keepsKey: false });
      return;
    }
    await onRetire(id);
    await admission.retire(id);
  }

  /**
   * Retires the enrolment of an id after its accepted key was deleted, rejected or replaced. May be
   * called outside of {@link exclusive}.
   */
  async keyLost(id: string): Promise<void> {
    const { repository, admission } = this.#parts;
    const live = repository.liveOf(id);
    if (live === undefined) return;
    await this.exclusive(live, async (current) => {
      if (current?.state !== 'accepted' && current?.state !== 'signed-in') return;
      const held = admission.keyOf(id);
      if (held?.state === 'accepted' && held.fingerprint === current.fingerprint) return;
      const isJudged = held?.state === 'accepted' || held?.state === 'rejected';
      const reason = `an operator ${isJudged ? 'rejected or replaced' : 'deleted'} the key of the minion`;
      await this.#end(current, { ...current, state: 'retired', reason }, { keepsKey: isJudged });
    });
  }

  /**
   * Carries out the effects of transitions that were stored before a crash. Must be called before
   * requests are served. Minions that have been accepted but have not signed in get a new deadline,
   * because the master may have been stopped for a long time.
   */
  async resume(): Promise<void> {
    const { repository, now } = this.#parts;
    const all = [...repository.all()];
    await Promise.all(all.filter(({ state }) => state !== 'open').map((it) => this.#spend(it)));
    const accepted = all.filter(({ state }) => state === 'accepted');
    const waiting = accepted.filter(({ deadline }) => deadline !== undefined);
    if (waiting.length > 0) {
      await repository.put(...waiting.map((it) => ({ ...it, deadline: now() + signInMs })));
    }
    for (const enrolment of accepted) await this.#acceptKey(enrolment);
    for (const enrolment of [...repository.ending()]) await this.#endLeftKey(enrolment);
  }

  /**
   * Records all used tickets on this member, because another member may have accepted their
   * enrolments. A ticket is used if its enrolment is not open any more. Must be called before
   * requests are served.
   */
  async resumeTickets(): Promise<void> {
    const used = [...this.#parts.repository.all()].filter(({ state }) => state !== 'open');
    await Promise.all(used.map((it) => this.#spend(it)));
  }

  /**
   * Marks the ticket of an enrolment as used on this member, after another cluster member has
   * accepted the enrolment.
   */
  async followed(enrolment: Enrolment): Promise<void> {
    if (enrolment.state !== 'open') await this.#spend(enrolment);
  }

  /**
   * Carries out the remaining effects of transitions that a cluster member stored before it failed.
   */
  async takeOver(): Promise<void> {
    const { repository, now } = this.#parts;
    for (const enrolment of [...repository.all()].filter(({ state }) => state === 'accepted')) {
      await this.exclusive(enrolment, async (current) => {
        if (current?.state !== 'accepted') return;
        const deadline = now() + signInMs;
        if (current.deadline !== undefined) await repository.put({ ...current, deadline });
        await this.#acceptKey(current);
      });
    }
    for (const enrolment of [...repository.ending()]) {
      await this.exclusive(enrolment, () => this.#endLeftKey(enrolment));
    }
  }

  /**
   * Accepts the key of an enrolment. If the minion has not presented the key yet, the master
   * accepts the key when the minion presents it.
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
    const { repository, admission, onRetire, onRelease } = this.#parts;
    const { id, number, project } = live;
    if (live.state !== 'open' || over.state === 'retired') await onRetire(id);
    // End what the previous owner registered, because the id may next belong to another project. If
    // a newer ticket replaced this one, the owner is unchanged.
    else if (repository.liveOf(id)?.number === number)
      await onRelease(id, ownerNameOfProject(project));
    if (keepsKey) await repository.put(over);
    else await repository.putEnd(over);
    await this.#spend(live);
    if (!keepsKey) {
      await admission.retire(id);
      await repository.endCompleted(over);
    }
    const { reason } = over;
    const what = over.state === 'failed' ? 'failed' : 'retired';
    this.#tell({ what, enrolment: over, ...(reason === undefined ? {} : { detail: reason }) });
  }

  /** Retires the key of an ended enrolment if the key still exists. */
  async #endLeftKey(over: Enrolment): Promise<void> {
    const { repository, admission } = this.#parts;
    const held = admission.keyOf(over.id);
    const isLeft = held === undefined || held.fingerprint === over.fingerprint;
    if (isLeft && repository.liveOf(over.id) === undefined) await admission.retire(over.id);
    await repository.endCompleted(over);
  }

  #tell(news: EnrolmentEvent): void {
    this.#parts.repository.announce(news.enrolment);
    this.#parts.tell(news);
  }

  async #spend({ number, ticketExpiresAt }: Enrolment): Promise<void> {
    if (ticketExpiresAt !== undefined) await this.#parts.spent.add(number, ticketExpiresAt);
  }
}
