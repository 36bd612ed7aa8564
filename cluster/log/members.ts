import { StoreError } from '#store';
import type { HistoryMark } from './entry.ts';
import { LatestMessages, type MemberLink } from './latest-heard.ts';

/**
 * Members that must have applied a write before it is acknowledged. `local`: only this member.
 * `second`: this member and one other. `majority`: most members of the cluster.
 */
export type AcknowledgeRule = 'local' | 'second' | 'majority';

/** State of a member, as another member observes it. */
export interface MemberStatus {
  readonly name: string;
  /** Position up to which the member has applied the log. */
  readonly position: number;
  readonly isAlive: boolean;
  /**
   * Clock of the other member minus clock of this member, in milliseconds. The difference includes
   * the transmission time of a message.
   */
  readonly clockSkewMs: number | undefined;
}

/** Report that each member sends periodically. */
interface Report extends HistoryMark {
  readonly member: string;
  /** Session of the member, which is new each time its store is opened. The log records it. */
  readonly session: string;
  /** Time at which the report was sent, in milliseconds since 1970. */
  readonly time: number;
  /** Whether the member is closing and sends no further report. */
  readonly isClosing?: boolean;
}

interface Heard {
  readonly session: string;
  /** Time at which the last report arrived, on the clock of `performance.now()`. */
  readonly at: number;
  readonly position: number;
  readonly skewMs: number;
  /**
   * Last position in the log for which this member and the other member had computed the same hash.
   */
  readonly agreedAt: number;
}

export interface MembersOptions extends MemberLink {
  readonly acknowledge: AcknowledgeRule;
  /**
   * Behaviour while too few members are running: `local` continues to write, `refuse` rejects
   * writes. Default: `local` in a cluster of one member, otherwise `refuse`.
   */
  readonly whenAlone: 'local' | 'refuse' | undefined;
  readonly now: () => number;
  readonly memberTimeoutMs: number;
  readonly reportIntervalMs: number;
  readonly onDiverged: (error: StoreError) => void;
}

interface Waiting {
  readonly position: number;
  readonly resolve: () => void;
}

/**
 * Observes the other members. Records which members are running, up to which position they have
 * applied the log, and whether their histories agree with the history of this member.
 */
export class Members {
  readonly #options: MembersOptions;
  readonly #openedAt = performance.now();
  readonly #heard = new Map<string, Heard>();
  readonly #latest: LatestMessages;
  /**
   * Positions and hashes reported by members that are ahead of this member. This member compares
   * its own hash when it reaches the position.
   */
  readonly #toCompare = new Map<string, HistoryMark>();
  /**
   * Members whose history differs from that of this member, by name. `position` is the position in
   * the log at which the hashes differ.
   */
  readonly #disputes = new Map<string, { readonly position: number; readonly since: number }>();
  readonly #ending = new AbortController();
  readonly #timer: NodeJS.Timeout;
  #waiting: Waiting[] = [];

  constructor(options: MembersOptions) {
    this.#options = options;
    this.#latest = new LatestMessages(options.view);
    options.log.onAnnouncement((bytes) => this.#hear(bytes), this.#ending.signal);
    this.#timer = setInterval(() => this.#tick(), options.reportIntervalMs).unref();
  }

  /**
   * Reports the applied position to the other members. Acknowledges writes that enough members have
   * applied.
   */
  applied(): void {
    this.report();
    this.#compareWaiting();
    this.#settle();
  }

  report(isClosing = false): void {
    if (this.#ending.signal.aborted) return;
    const { log, view, cipher, member, session, now } = this.#options;
    const { log: id, position, hash } = view.state;
    const last = isClosing ? { isClosing } : {};
    const report: Report = { log: id, position, hash, member, session, time: now(), ...last };
    log.announce(cipher.seal(Buffer.from(JSON.stringify(report))).bytes);
  }

  /**
   * Checks that enough members are running for a write.
   * @throws StoreError ERR_CLUSTER_ALONE if there are too few
   */
  assertEnough(): void {
    const needed = this.#needed();
    const alive = this.#alive().length + 1;
    if (alive >= needed || this.#continuesAlone()) return;
    throw new StoreError(
      'ERR_CLUSTER_ALONE',
      `a write must be stored by ${needed} members, but only ${alive} of ${this.#size()} are running`,
    );
  }

  /** Whether fewer members are running than `acknowledge` requires. */
  get isAlone(): boolean {
    return this.#alive().length + 1 < this.#needed();
  }

  /** Whether writes are rejected because fewer members are running than `acknowledge` requires. */
  get refusesWrites(): boolean {
    return this.isAlone && !this.#continuesAlone();
  }

  /**
   * Waits until as many members as the option `acknowledge` requires have applied the log up to a
   * position.
   */
  keptAt(position: number): Promise<void> {
    if (this.#isKept(position)) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push({ position, resolve }));
  }

  status(): MemberStatus[] {
    const { view, member } = this.#options;
    const alive = new Set(this.#alive());
    return Object.keys(view.state.members).map((name) => {
      const heard = this.#heard.get(name);
      if (name === member) {
        return { name, position: view.state.position, isAlive: true, clockSkewMs: 0 };
      }
      return {
        name,
        position: heard?.position ?? 0,
        isAlive: alive.has(name) && heard !== undefined,
        clockSkewMs: heard?.skewMs,
      };
    });
  }

  /** Returns the lowest applied position of the running members, including this member. */
  lowestAlive(): number {
    const others = this.#alive().map((name) => this.#heard.get(name)?.position ?? 0);
    return Math.min(this.#options.view.state.position, ...others);
  }

  /**
   * Highest position in the log that any other member has reported. 0 if no member has reported
   * one.
   */
  get highest(): number {
    return Math.max(0, ...[...this.#heard.values()].map(({ position }) => position));
  }

  /** Stops, and announces the stop, so that the other members do not wait for a timeout. */
  close(): void {
    clearInterval(this.#timer);
    this.report(true);
    this.#ending.abort();
  }

  /**
   * Checks that a member has applied the same log entries as this member, by comparing their hashes
   * at a position.
   * @param name - name of the other member
   * @param mark - position and hash that the other member reported
   */
  compare(name: string, mark: HistoryMark): void {
    const { view } = this.#options;
    if (mark.log !== view.state.log) return;
    if (mark.position > view.state.position) {
      this.#toCompare.set(name, mark);
      return;
    }
    const own = view.hashAt(mark.position);
    if (own === undefined) return;
    if (own !== mark.hash) {
      this.#dispute(name, mark.position);
      return;
    }
    const heard = this.#heard.get(name);
    if (heard === undefined || mark.position <= heard.agreedAt) return;
    this.#heard.set(name, { ...heard, agreedAt: mark.position });
  }

  #hear(bytes: Uint8Array): void {
    const { cipher, member, view, now } = this.#options;
    const message = cipher.open(bytes);
    if (message === undefined) return;
    const report: Report = JSON.parse(message.body.toString());
    if (report.member === member || report.log !== view.state.log) return;
    if (!this.#latest.isNew(report.member, report.session, message)) return;
    const before = this.#heard.get(report.member);
    this.#heard.set(report.member, {
      session: report.session,
      at: report.isClosing === true ? Number.NEGATIVE_INFINITY : performance.now(),
      position: report.position,
      skewMs: report.time - now(),
      agreedAt: before?.session === report.session ? before.agreedAt : 0,
    });
    this.compare(report.member, report);
    this.#settle();
  }

  #compareWaiting(): void {
    const { position } = this.#options.view.state;
    for (const [name, mark] of this.#toCompare) {
      if (mark.position > position) continue;
      this.#toCompare.delete(name);
      this.compare(name, mark);
    }
  }

  #dispute(name: string, position: number): void {
    if (!this.#disputes.has(name)) {
      this.#disputes.set(name, { position, since: performance.now() });
    }
    this.#judge();
  }

  /**
   * Stops this member if the hash of its history differs from the hash of most members. The other
   * members continue without it.
   */
  #judge(): void {
    if (this.#disputes.size === 0) return;
    const positions = [...this.#disputes.values()];
    const first = Math.min(...positions.map((it) => it.position));
    const since = Math.min(...positions.map((it) => it.since));
    const others = [...this.#heard].filter(([name]) => !this.#disputes.has(name));
    const agreeing = 1 + others.filter(([, { agreedAt }]) => agreedAt >= first).length;
    if (agreeing * 2 > this.#size()) return;
    const isDecided = this.#disputes.size * 2 >= this.#size();
    if (!isDecided && performance.now() - since < this.#options.memberTimeoutMs) return;
    const names = [...this.#disputes.keys()].join(', ');
    this.#options.onDiverged(
      new StoreError(
        'ERR_STORE_DIVERGED',
        `the content of this store at position ${first} of the log differs from that of ${names}`,
      ),
    );
  }

  #tick(): void {
    this.report();
    this.#judge();
    this.#settle();
  }

  #settle(): void {
    this.#waiting = this.#waiting.filter(({ position, resolve }) => {
      if (!this.#isKept(position)) return true;
      resolve();
      return false;
    });
  }

  #isKept(position: number): boolean {
    const others = this.#alive().filter(
      (name) => (this.#heard.get(name)?.position ?? 0) >= position,
    );
    if (others.length + 1 >= this.#needed()) return true;
    return this.isAlone && this.#continuesAlone();
  }

  #alive(): string[] {
    const { view, member, memberTimeoutMs } = this.#options;
    const now = performance.now();
    return Object.entries(view.state.members)
      .filter(([name, { session }]) => {
        if (name === member || this.#disputes.has(name)) return false;
        const heard = this.#heard.get(name);
        // The same timeout applies to a member without any report. It begins when this store is
        // opened.
        const at = heard?.session === session ? heard.at : this.#openedAt;
        return now - at < memberTimeoutMs;
      })
      .map(([name]) => name);
  }

  #continuesAlone(): boolean {
    return (this.#options.whenAlone ?? (this.#size() <= 1 ? 'local' : 'refuse')) === 'local';
  }

  #needed(): number {
    switch (this.#options.acknowledge) {
      case 'local':
        return 1;
      case 'second':
        return 2;
      case 'majority':
        return Math.floor(this.#size() / 2) + 1;
    }
  }

  #size(): number {
    return Math.max(1, Object.keys(this.#options.view.state.members).length);
  }
}
