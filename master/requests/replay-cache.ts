import { type Reply, type SessionKeys, send, type VerifiedRequest } from '../auth/index.ts';
import { DigestPool, DigestQueue } from './digest-queue.ts';
import { markOf } from './request-digest.ts';

/**
 * Maximum number of marks of a minion, each for one request. It is larger than the number of events
 * that a minion can send while their time stamps are valid (300 s).
 */
const maxPerMinion = 8_192;

/** Reply to nearly all requests. The cache stores only replies that differ from this one. */
const usualReply: Reply = send(null);

interface OddReply {
  readonly reply: Reply;
  /** Expiry time in seconds since 1970, or infinity. */
  readonly expiresAt: number;
}

/**
 * Requests of one minion that the master has answered or is processing. Each request has an
 * identifier, its mark.
 */
interface Marks {
  readonly done: DigestQueue;
  /**
   * Replies other than `null`, the usual reply, by the mark of the request. The map is created when
   * it is needed.
   */
  odd: Map<string, OddReply> | undefined;
  /** Requests in progress, by their marks. The map is created when it is needed. */
  underWay: Map<string, Promise<Reply>> | undefined;
}

/** Options of the replay cache. */
export interface ReplayCacheOptions {
  /** `request_server_ttl` in seconds. 0 disables the check of a request's age. */
  readonly ttlSeconds: number;
  readonly now: () => number;
  /** Reports an answered request to the other members of a cluster. Default: no reports. */
  readonly report?: ((mark: ReportedMark) => void) | undefined;
}

/**
 * Identifier (mark) of a request that one cluster member has answered. The member sends it to the
 * other members.
 */
export interface ReportedMark {
  readonly minion: string;
  readonly mark: Uint8Array;
  /** Expiry time in seconds since 1970. 0 if it never expires. */
  readonly expiresAt: number;
}

/**
 * Remembers requests that have an effect, and the replies to them. Salt's clients repeat a packed
 * request if its reply was lost. The repetition has no second effect and gets the same reply
 * [THREATS C-43]. Each request is identified by a mark. The marks of each minion are limited
 * separately, so that no minion can evict the marks of another. A mark expires when the time stamp
 * of its request becomes invalid. Marks of requests without a time stamp do not expire. A failed
 * request gets no mark, so that the minion can repeat it.
 */
export class ReplayCache {
  readonly #options: ReplayCacheOptions;
  readonly #pool = new DigestPool();
  readonly #marks = new Map<string, Marks>();

  constructor(options: ReplayCacheOptions) {
    this.#options = options;
  }

  /**
   * Runs a request. If the request has been run before, returns the reply of the first run instead.
   */
  once(request: VerifiedRequest, run: () => Reply | Promise<Reply>): Reply | Promise<Reply> {
    if (request.minionId === undefined) return run();
    const marks = this.#marksOf(request.minionId);
    const mark = markOf(request);
    const first = firstAnswer(marks, mark);
    if (first !== undefined) return first;
    const expiresAt = this.#expiry(request);
    const reply = run();
    if (reply instanceof Promise) {
      const told = this.#follow(marks, mark, expiresAt, reply);
      if (this.#options.report !== undefined)
        this.#reportAfter(request.minionId, mark, expiresAt, told);
      return told;
    }
    this.#keep(marks, mark, expiresAt, reply);
    this.#report(request.minionId, mark, expiresAt);
    return reply;
  }

  /**
   * Records a request after another cluster member has answered it, so that a repetition has no
   * effect at this member.
   */
  note({ minion, mark, expiresAt }: ReportedMark): void {
    const { done } = this.#marksOf(minion);
    done.removeExpired(this.#options.now() / 1000);
    done.add(Buffer.from(mark), expiresAt === 0 ? Number.POSITIVE_INFINITY : expiresAt);
  }

  /**
   * Deletes the identifiers (marks) of all requests of a minion after its keys have become invalid.
   * These requests cannot be repeated, because the master can no longer decrypt them.
   */
  forget(minionId: string): void {
    this.#marks.get(minionId)?.done.release();
    this.#marks.delete(minionId);
  }

  #report(minion: string, mark: Uint8Array, expiresAt: number): void {
    this.#options.report?.({ minion, mark, expiresAt: Number.isFinite(expiresAt) ? expiresAt : 0 });
  }

  /**
   * Reports a request to the other members after it has succeeded. A failed request may be repeated
   * at any member.
   */
  #reportAfter(
    minion: string,
    mark: Uint8Array,
    expiresAt: number,
    answered: Promise<Reply>,
  ): void {
    answered.then(
      () => this.#report(minion, mark, expiresAt),
      () => {},
    );
  }

  async #follow(
    marks: Marks,
    mark: Buffer,
    expiresAt: number,
    reply: Promise<Reply>,
  ): Promise<Reply> {
    const name = nameOf(mark);
    marks.underWay ??= new Map();
    marks.underWay.set(name, reply);
    try {
      this.#keep(marks, mark, expiresAt, await reply);
    } finally {
      marks.underWay.delete(name);
    }
    return reply;
  }

  #keep(marks: Marks, mark: Buffer, expiresAt: number, reply: Reply): void {
    const now = this.#options.now() / 1000;
    marks.done.removeExpired(now);
    if (reply.kind === 'send' && reply.value === null) {
      marks.done.add(mark, expiresAt);
      return;
    }
    marks.odd ??= new Map();
    marks.odd.set(nameOf(mark), { reply, expiresAt });
    for (const [oldest, kept] of marks.odd) {
      if (marks.odd.size <= maxPerMinion && kept.expiresAt >= now) return;
      marks.odd.delete(oldest);
    }
  }

  /**
   * Returns the expiry of the request's time stamp, in seconds since 1970. Infinity if the request
   * has no time stamp.
   */
  #expiry({ ts }: VerifiedRequest): number {
    const { ttlSeconds } = this.#options;
    return ts === undefined || ttlSeconds === 0 ? Number.POSITIVE_INFINITY : ts + ttlSeconds;
  }

  #marksOf(minionId: string): Marks {
    const known = this.#marks.get(minionId);
    if (known !== undefined) return known;
    const done = new DigestQueue(this.#pool, maxPerMinion);
    const fresh: Marks = { done, odd: undefined, underWay: undefined };
    this.#marks.set(minionId, fresh);
    return fresh;
  }
}

function firstAnswer(
  { done, odd, underWay }: Marks,
  mark: Buffer,
): Reply | Promise<Reply> | undefined {
  if (done.has(mark)) return usualReply;
  if (odd === undefined && underWay === undefined) return undefined;
  const name = nameOf(mark);
  return underWay?.get(name) ?? odd?.get(name)?.reply;
}

function nameOf(mark: Buffer): string {
  return mark.toString('latin1');
}

/**
 * Returns a function that checks whether a request may be a replay. When the master restarts, it no
 * longer knows which requests it has answered. So a request with a time stamp before the start may
 * be a replay. If the session key of its minion was created after the start, the request is not a
 * replay. An attacker cannot have recorded it before the start, because the key did not exist then.
 */
export function replayCheck(
  sessions: SessionKeys,
  startedAt: number,
): (request: VerifiedRequest) => boolean {
  const startSecond = Math.floor(startedAt / 1000);
  return ({ minionId, ts }) => {
    if (minionId === undefined || ts === undefined || ts >= startSecond) return false;
    const madeAt = sessions.madeAt(minionId);
    return madeAt !== undefined && madeAt < startedAt;
  };
}
