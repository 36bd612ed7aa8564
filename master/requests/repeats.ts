import { MarkPool } from './mark-pool.ts';
import { MarkQueue } from './mark-queue.ts';
import { type Reply, send, type VerifiedRequest } from './request.ts';
import { markOf } from './request-mark.ts';

/** As many as a minion may send events in the 300 s that its time stamps are good for, and more. */
const maxPerMinion = 8_192;

/** What nearly all requests are answered; a mark of one that was answered so needs no reply with it. */
const usualReply: Reply = send(null);

interface OddReply {
  readonly reply: Reply;
  /** Seconds since 1970, or infinity. */
  readonly expiresAt: number;
}

/** What is known of one minion's requests. */
interface Marks {
  readonly done: MarkQueue;
  /** Replies other than the usual one, if there were any, by mark. */
  odd: Map<string, OddReply> | undefined;
  /** Requests that are not done yet, if there were any, by mark. */
  underWay: Map<string, Promise<Reply>> | undefined;
}

/** How long marks are needed. */
export interface RepeatGuardOptions {
  /** `request_server_ttl`, seconds; 0: the age of requests is not looked at. */
  readonly ttlSeconds: number;
  readonly now: () => number;
}

/**
 * Requests that change something, and what they were answered. Salt's clients repeat a packed
 * request whose answer was lost; the repeat has no second effect and gets the same answer
 * [THREATS C-43]. Each minion has marks of its own, so none can flush another's. A mark goes when
 * the time stamp of its request is refused anyway; requests without one keep theirs. A request that
 * failed has none: its repeat is another try.
 */
export class RepeatGuard {
  readonly #options: RepeatGuardOptions;
  readonly #pool = new MarkPool();
  readonly #marks = new Map<string, Marks>();

  constructor(options: RepeatGuardOptions) {
    this.#options = options;
  }

  /** Runs the request, or gives what it was answered the first time. */
  once(request: VerifiedRequest, run: () => Reply | Promise<Reply>): Reply | Promise<Reply> {
    if (request.minionId === undefined) return run();
    const marks = this.#marksOf(request.minionId);
    const mark = markOf(request);
    const first = firstAnswer(marks, mark);
    if (first !== undefined) return first;
    const expiresAt = this.#expiry(request);
    const reply = run();
    if (reply instanceof Promise) return this.#follow(marks, mark, expiresAt, reply);
    this.#keep(marks, mark, expiresAt, reply);
    return reply;
  }

  /** Forgets a minion's marks; its keys are no longer good, so nothing of it can be repeated. */
  forget(minionId: string): void {
    this.#marks.get(minionId)?.done.release();
    this.#marks.delete(minionId);
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

  /** After that the time stamp itself is refused. */
  #expiry({ ts }: VerifiedRequest): number {
    const { ttlSeconds } = this.#options;
    // protection: marks-for-ever
    return ts === undefined || ttlSeconds === 0 ? Number.POSITIVE_INFINITY : ts + ttlSeconds;
  }

  #marksOf(minionId: string): Marks {
    const known = this.#marks.get(minionId);
    if (known !== undefined) return known;
    const done = new MarkQueue(this.#pool, maxPerMinion);
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
