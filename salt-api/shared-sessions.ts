/**
 * Sessions of the HTTP API that all members of a cluster share. The store has a row for each
 * session. The key of the row contains the digest of the session token. Its value is encrypted and
 * contains the token of the user at the master. Each member has a copy of all sessions in memory.
 */

import { EventEmitter, once } from 'node:events';
import Type from 'typebox';
import type { ExtensionHost, SharedArea, StateChange, StateOperation } from '#master';
import {
  addressOwner,
  Budget,
  FairTable,
  LimitExceeded,
  unlimitedSteps,
  WorkBudget,
} from '#runtime';
import { defineRow, type RowOf } from '#store';
import { apiLimits } from './limits.ts';
import {
  createSessionToken,
  digestOf,
  hasTokenForm,
  lookUp,
  ownerNameOf,
  type Session,
  type SessionOwner,
  type Sessions,
} from './sessions.ts';

interface HeldSession {
  /** Name of the session's user, under which the session limit counts the session. */
  readonly owner: string;
  /**
   * Contents of the session's row, encrypted as stored: the token of the user at the master, and
   * the owner.
   */
  readonly sealed: Uint8Array;
  /** The session. Set when it is first used on this member. */
  session: Session | undefined;
  /** Revision of the session's row in the store. */
  revision: number;
  /** Time at which the session expires if it is not used, in milliseconds since 1970. */
  endsAt: number;
  /**
   * Time at which the session expires if it is not used, in milliseconds of the monotonic clock.
   */
  endsBy: number;
  /** Time at which the session's row was last written to the store, in milliseconds since 1970. */
  writtenAt: number;
}

export interface SharedSessionsOptions extends Pick<ExtensionHost, 'now'> {
  readonly shared: Pick<SharedArea, 'follow' | 'seal' | 'unseal' | 'write'>;
  /** Returns the time of a monotonic clock, in milliseconds. */
  readonly monotonic: () => number;
  /** Time without use on any member after which a session expires, in milliseconds. */
  readonly idleMs: number;
  /** Maximum number of sessions. Default: the total of the limit `sessions` (50,000). */
  readonly capacity?: number;
}

const prefix = 'sessions';

/** Schema of the rows `sessions/<digest>`. The store contains their values in encrypted form. */
const sessionRow = defineRow({
  name: 'HTTP session',
  schema: Type.Object({
    /** Token of the session's user at the master. */
    token: Type.String(),
    /**
     * Name of the session's user, under which the session limit counts the session. Absent in rows
     * of older versions.
     */
    owner: Type.Optional(Type.String()),
  }),
  unversioned: (bytes) => ({ token: Buffer.from(bytes).toString() }),
});

const keyOf = (hash: string): readonly string[] => [prefix, hash];

/**
 * Number of times per `idleMs` that the store is updated with the time at which a session was last
 * used. The interval between two updates is at most {@link maxWriteIntervalMs}. While a session is
 * not in use, nothing is written.
 */
const writesPerIdleTime = 4;
const maxWriteIntervalMs = 900_000;

/**
 * Maximum number of sessions that are evicted when one is opened. More than one may be surplus,
 * because several members can open sessions at the same time.
 */
const maxSurplus = 16;

/** Estimated work for checking one session, in steps of a `WorkBudget`. */
const stepsOfSession = 20;

/** Maximum number of sessions whose last use is written at the same time. */
const writesAtOnce = 128;

/**
 * Maximum time to wait for an unknown session, in milliseconds. Another member of the cluster may
 * have just opened it.
 */
const expectedForMs = 250;

/** Sessions of a cluster. Each member has a copy of them in memory. */
export class SharedSessions implements Sessions {
  readonly #options: SharedSessionsOptions;
  readonly #writeIntervalMs: number;
  /**
   * Sessions, by the digest of the session token. The table itself never evicts a session. Only
   * {@link open} evicts one, and also deletes its row in the store, so that all members hold the
   * same sessions.
   */
  readonly #held = new FairTable<HeldSession>(apiLimits.sessions, {}, {});
  /** Digests of the sessions whose last use on this member is not in the store yet. */
  readonly #unwritten = new Set<string>();
  readonly #timer: NodeJS.Timeout;
  #isTicking = false;
  /** Emits the digest of each session that is added. */
  readonly #opened = new EventEmitter().setMaxListeners(0);
  readonly #expecting = new Budget(apiLimits.expectedSessions);

  private constructor(options: SharedSessionsOptions) {
    this.#options = options;
    this.#writeIntervalMs = Math.min(options.idleMs / writesPerIdleTime, maxWriteIntervalMs);
    this.#timer = setInterval(() => void this.#tick(), this.#writeIntervalMs).unref();
  }

  static async open(options: SharedSessionsOptions): Promise<SharedSessions> {
    const sessions = new SharedSessions(options);
    await options.shared.follow([prefix], (change) => sessions.#note(change));
    sessions.#sort();
    return sessions;
  }

  async open(token: string, user: SessionOwner): Promise<string> {
    const { shared, now, idleMs } = this.#options;
    const secret = createSessionToken();
    const owner = ownerNameOf(user);
    const value = shared.seal(sessionRow.encode({ token, owner }));
    const key = keyOf(digestOf(secret));
    const surplus = this.#surplusFor(owner);
    const removal = surplus.map((hash) => ({ op: 'delete', key: keyOf(hash) }) as const);
    // When this promise resolves, the change has already been applied to the copy in memory.
    await shared.write([{ op: 'put', key, value, expiresAt: now() + idleMs }, ...removal]);
    // If the row had already expired, no change was reported for it.
    for (const hash of surplus) this.#forget(hash);
    return secret;
  }

  find(secret: string): Session | undefined {
    const known = lookUp(this.#held, secret);
    if (known === undefined) return undefined;
    const [hash, held] = known;
    if (this.#isOver(held)) return undefined;
    const { now, monotonic, idleMs } = this.#options;
    held.endsAt = now() + idleMs;
    held.endsBy = monotonic() + idleMs;
    this.#unwritten.add(hash);
    if (this.#isDue(held)) void this.#writeUse(hash, held);
    held.session ??= { token: this.#open(hash, held.sealed).token };
    return held.session;
  }

  async expect(secret: string, address: string): Promise<Session | undefined> {
    const sender = addressOwner(address);
    if (!hasTokenForm(secret) || !this.#expecting.tryTake(sender)) return undefined;
    try {
      await once(this.#opened, digestOf(secret), { signal: AbortSignal.timeout(expectedForMs) });
    } catch {
      // The time has expired, and no member has opened the session.
    } finally {
      this.#expecting.release(sender);
    }
    return this.find(secret);
  }

  get size(): number {
    return this.#held.size;
  }

  async close(secret: string): Promise<void> {
    const hash = digestOf(secret);
    this.#forget(hash);
    await this.#options.shared.write([{ op: 'delete', key: keyOf(hash) }]);
  }

  /** Stops this member. The other members continue to use the sessions. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#writeUses(() => true);
  }

  #forget(hash: string): void {
    this.#held.delete(hash);
    this.#unwritten.delete(hash);
  }

  /**
   * Applies a change of a session's row in the store. Any member of the cluster may have made the
   * change.
   */
  #note(change: StateChange): void {
    const hash = (change.type === 'put' ? change.entry : change).key.at(-1) ?? '';
    if (change.type === 'delete') {
      this.#forget(hash);
      return;
    }
    const { now, monotonic, idleMs } = this.#options;
    const { value, revision, expiresAt = 0 } = change.entry;
    const left = Math.min(expiresAt - now(), idleMs);
    const before = this.#held.peek(hash);
    const owner = before?.owner ?? this.#ownerOf(hash, value);
    this.#held.set(owner, hash, {
      owner,
      sealed: before?.sealed ?? new Uint8Array(value),
      session: before?.session,
      revision,
      // The session may have been used on this member after the row was written.
      endsAt: Math.max(expiresAt, before?.endsAt ?? 0),
      endsBy: Math.max(monotonic() + left, before?.endsBy ?? 0),
      writtenAt: expiresAt - idleMs,
    });
    if (before === undefined || expiresAt >= before.endsAt) this.#unwritten.delete(hash);
    if (before === undefined) this.#opened.emit(hash);
  }

  /**
   * Sorts the sessions in memory by their last use, so that the one that was used least recently is
   * evicted first. The store returns them in the order of their keys.
   */
  #sort(): void {
    const all = [...this.#held.entries()].sort(([, one], [, other]) => one.endsAt - other.endsAt);
    for (const [hash, held] of all) this.#held.set(held.owner, hash, held);
  }

  /**
   * Removes expired sessions from memory. This is necessary because the store does not report a
   * change when a row expires.
   */
  async #tick(): Promise<void> {
    if (this.#isTicking) return;
    this.#isTicking = true;
    const budget = new WorkBudget(unlimitedSteps);
    for (const [hash, held] of this.#held.entries()) {
      if (this.#isOver(held)) this.#forget(hash);
      await budget.giveWayAfter(stepsOfSession);
    }
    await this.#writeUses((held) => this.#isDue(held));
    this.#isTicking = false;
  }

  #isOver({ endsAt, endsBy }: HeldSession): boolean {
    const { now, monotonic } = this.#options;
    return now() >= endsAt || monotonic() >= endsBy;
  }

  #open(hash: string, sealed: Uint8Array): RowOf<typeof sessionRow> {
    return sessionRow.decode({ key: keyOf(hash), value: this.#options.shared.unseal(sealed) });
  }

  /**
   * Returns the owner towards whose session limit the session in a row counts. Rows that cannot be
   * read, and rows of older versions, have the owner `''`.
   */
  #ownerOf(hash: string, sealed: Uint8Array): string {
    try {
      return this.#open(hash, sealed).owner ?? '';
    } catch {
      return '';
    }
  }

  /**
   * Returns the digests of the sessions to evict before a new one is opened. A session of another
   * user is never evicted if that user has no other session.
   * @throws LimitExceeded if the maximum number of sessions is reached and no session may be
   * evicted
   */
  #surplusFor(owner: string): readonly string[] {
    const { capacity = apiLimits.sessions.total ?? Infinity } = this.#options;
    const count = Math.min(this.#held.size + 1 - capacity, maxSurplus);
    const surplus: (readonly [hash: string, held: HeldSession])[] = [];
    while (surplus.length < count) {
      const hash = this.#held.victimOf(owner);
      const held = hash === undefined ? undefined : this.#held.peek(hash);
      if (hash === undefined || held === undefined) break;
      this.#held.delete(hash);
      surplus.push([hash, held]);
    }
    // The evicted sessions stay in memory until their removal is written.
    for (const [hash, held] of surplus) this.#held.set(held.owner, hash, held);
    if (count > 0 && surplus.length === 0) throw new LimitExceeded(apiLimits.sessions, capacity);
    return surplus.map(([hash]) => hash);
  }

  /** Whether the last use of a session must be written now. */
  #isDue({ writtenAt }: HeldSession): boolean {
    return this.#options.now() - writtenAt >= this.#writeIntervalMs;
  }

  async #writeUses(isWanted: (held: HeldSession) => boolean): Promise<void> {
    const budget = new WorkBudget(unlimitedSteps);
    const wanted: { readonly hash: string; readonly held: HeldSession }[] = [];
    for (const hash of this.#unwritten) {
      const held = this.#held.peek(hash);
      if (held !== undefined && isWanted(held)) wanted.push({ hash, held });
      await budget.giveWayAfter(stepsOfSession);
    }
    for (let at = 0; at < wanted.length; at += writesAtOnce) {
      const some = wanted.slice(at, at + writesAtOnce);
      await Promise.all(some.map(({ hash, held }) => this.#writeUse(hash, held)));
    }
  }

  /**
   * Stores the time at which a session was last used on this member, so that other members know it.
   * A failure is ignored.
   */
  async #writeUse(hash: string, held: HeldSession): Promise<void> {
    const { shared, now } = this.#options;
    const { owner, session, sealed, endsAt: expiresAt, revision: ifRevision } = held;
    const value =
      session === undefined ? sealed : shared.seal(sessionRow.encode({ ...session, owner }));
    held.writtenAt = now();
    // The condition prevents this write from restoring a session that another member has ended.
    const put: StateOperation = { op: 'put', key: keyOf(hash), value, expiresAt, ifRevision };
    try {
      await shared.write([put]);
    } catch {
      // The session stays valid on this member. The write is repeated at the next use, or by the
      // timer.
    }
  }
}
