/**
 * Log-ins of the HTTP API that all members of a cluster know. A session is a row of the store: the
 * digest of its token, and the master's token behind it, sealed. Members have all of them in memory,
 * and look there.
 */

import { EventEmitter, once } from 'node:events';
import Type from 'typebox';
import type { ExtensionHost, SharedArea, StateChange, StateOperation } from '#master';
import { defineRow } from '#store';
import {
  createSessionToken,
  digestOf,
  hasTokenForm,
  lookUp,
  type Session,
  type Sessions,
} from './sessions.ts';

interface HeldSession {
  /** The master's token, as the row has it. */
  readonly sealed: Uint8Array;
  /** Once somebody has used it here. */
  session: Session | undefined;
  /** Of the row. */
  revision: number;
  /** When it ends if nobody uses it: milliseconds since 1970, and of the clock that only goes forward. */
  endsAt: number;
  endsBy: number;
  /** When the row was last written, milliseconds since 1970. */
  writtenAt: number;
}

export interface SharedSessionsOptions extends Pick<ExtensionHost, 'now'> {
  readonly shared: Pick<SharedArea, 'follow' | 'seal' | 'unseal' | 'write'>;
  /** Milliseconds of a clock that only goes forward. */
  readonly monotonic: () => number;
  /** Milliseconds without use, at any member, after which a session ends. */
  readonly idleMs: number;
  /** Sessions at a time. */
  readonly capacity: number;
}

const prefix = 'sessions';

/** Rows `sessions/<digest>`, sealed. */
const sessionRow = defineRow({
  name: 'HTTP session',
  schema: Type.Object({
    /** The token of the master behind it. */
    token: Type.String(),
  }),
  unversioned: (bytes) => ({ token: Buffer.from(bytes).toString() }),
});

const keyOf = (hash: string): readonly string[] => [prefix, hash];

/** A session that is used is written this often in its idle time, and at least so often. */
const writesPerIdleTime = 4;
const maxWriteIntervalMs = 900_000;

/** Sessions that go when one is opened: more than one, where several members open one at once. */
const maxSurplus = 16;

/** Writes at a time. */
const writesAtOnce = 128;

/** How long a session is waited for that another member may have opened just now. */
const expectedForMs = 250;
/** Requests that wait so at a time. */
const maxExpecting = 256;

/** The sessions of a cluster, as this member knows them. */
export class SharedSessions implements Sessions {
  readonly #options: SharedSessionsOptions;
  readonly #writeIntervalMs: number;
  /** The one that was used last is last. */
  readonly #held = new Map<string, HeldSession>();
  /** Used here since their rows were written. */
  readonly #unwritten = new Set<string>();
  readonly #timer: NodeJS.Timeout;
  /** Emits the digest of each session that becomes known. */
  readonly #opened = new EventEmitter().setMaxListeners(maxExpecting);
  #expecting = 0;

  private constructor(options: SharedSessionsOptions) {
    this.#options = options;
    this.#writeIntervalMs = Math.min(options.idleMs / writesPerIdleTime, maxWriteIntervalMs);
    this.#timer = setInterval(() => this.#tick(), this.#writeIntervalMs).unref();
  }

  static async open(options: SharedSessionsOptions): Promise<SharedSessions> {
    const sessions = new SharedSessions(options);
    await options.shared.follow([prefix], (change) => sessions.#note(change));
    sessions.#sort();
    return sessions;
  }

  async open(token: string): Promise<string> {
    const { shared, now, idleMs } = this.#options;
    const secret = createSessionToken();
    const value = shared.seal(sessionRow.encode({ token }));
    const key = keyOf(digestOf(secret));
    const surplus = this.#surplus();
    const removal = surplus.map((hash) => ({ op: 'delete', key: keyOf(hash) }) as const);
    // It is noted before this resolves.
    await shared.write([{ op: 'put', key, value, expiresAt: now() + idleMs }, ...removal]);
    // Nobody is told of the end of a row that had expired already.
    for (const hash of surplus) this.#forget(hash);
    return secret;
  }

  find(secret: string): Session | undefined {
    const known = lookUp(this.#held, secret);
    if (known === undefined) return undefined;
    const [hash, held] = known;
    if (this.#isOver(held)) return undefined;
    const { now, monotonic, idleMs, shared } = this.#options;
    this.#held.delete(hash);
    held.endsAt = now() + idleMs;
    held.endsBy = monotonic() + idleMs;
    this.#held.set(hash, held);
    this.#unwritten.add(hash);
    if (this.#isDue(held)) void this.#writeUse(hash, held);
    held.session ??= sessionRow.decode({ key: keyOf(hash), value: shared.unseal(held.sealed) });
    return held.session;
  }

  async expect(secret: string): Promise<Session | undefined> {
    if (!hasTokenForm(secret) || this.#expecting >= maxExpecting) return undefined;
    this.#expecting += 1;
    try {
      await once(this.#opened, digestOf(secret), { signal: AbortSignal.timeout(expectedForMs) });
    } catch {
      // It did not come.
    } finally {
      this.#expecting -= 1;
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

  /** The other members go on with the sessions. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#writeUses(() => true);
  }

  #forget(hash: string): void {
    this.#held.delete(hash);
    this.#unwritten.delete(hash);
  }

  /** A row of the store, or what any member makes of one. */
  #note(change: StateChange): void {
    const hash = (change.type === 'put' ? change.entry : change).key.at(-1) ?? '';
    if (change.type === 'delete') {
      this.#forget(hash);
      return;
    }
    const { now, monotonic, idleMs } = this.#options;
    const { value, revision, expiresAt = 0 } = change.entry;
    const left = Math.min(expiresAt - now(), idleMs);
    const before = this.#held.get(hash);
    this.#held.delete(hash);
    this.#held.set(hash, {
      sealed: before?.sealed ?? new Uint8Array(value),
      session: before?.session,
      revision,
      // What was used here since then is not in the row.
      endsAt: Math.max(expiresAt, before?.endsAt ?? 0),
      endsBy: Math.max(monotonic() + left, before?.endsBy ?? 0),
      writtenAt: expiresAt - idleMs,
    });
    if (before === undefined || expiresAt >= before.endsAt) this.#unwritten.delete(hash);
    if (before === undefined) this.#opened.emit(hash);
  }

  /** Rows come in the order of their keys. */
  #sort(): void {
    const all = [...this.#held].sort(([, one], [, other]) => one.endsAt - other.endsAt);
    this.#held.clear();
    for (const [hash, held] of all) this.#held.set(hash, held);
  }

  /** Rows that expire are no change that is noted. */
  #tick(): void {
    for (const [hash, held] of this.#held) if (this.#isOver(held)) this.#forget(hash);
    void this.#writeUses((held) => this.#isDue(held));
  }

  #isOver({ endsAt, endsBy }: HeldSession): boolean {
    const { now, monotonic } = this.#options;
    return now() >= endsAt || monotonic() >= endsBy;
  }

  /** Those that go when one more is opened. */
  #surplus(): readonly string[] {
    const count = Math.min(this.#held.size + 1 - this.#options.capacity, maxSurplus);
    const surplus: string[] = [];
    for (const hash of this.#held.keys()) {
      if (surplus.length >= count) break;
      surplus.push(hash);
    }
    return surplus;
  }

  /** Whether it may be written that a session is used. */
  #isDue({ writtenAt }: HeldSession): boolean {
    return this.#options.now() - writtenAt >= this.#writeIntervalMs;
  }

  async #writeUses(isWanted: (held: HeldSession) => boolean): Promise<void> {
    const wanted = [...this.#unwritten].flatMap((hash) => {
      const held = this.#held.get(hash);
      return held !== undefined && isWanted(held) ? [{ hash, held }] : [];
    });
    for (let at = 0; at < wanted.length; at += writesAtOnce) {
      const some = wanted.slice(at, at + writesAtOnce);
      await Promise.all(some.map(({ hash, held }) => this.#writeUse(hash, held)));
    }
  }

  /** Lets the other members know that a session is used; never fails. */
  async #writeUse(hash: string, held: HeldSession): Promise<void> {
    const { shared, now } = this.#options;
    const { session, sealed, endsAt: expiresAt, revision: ifRevision } = held;
    const value = session === undefined ? sealed : shared.seal(sessionRow.encode(session));
    held.writtenAt = now();
    // What has ended at another member does not come back.
    const put: StateOperation = { op: 'put', key: keyOf(hash), value, expiresAt, ifRevision };
    try {
      await shared.write([put]);
    } catch {
      // It is used all the same, and written with a later use, or by the timer.
    }
  }
}
