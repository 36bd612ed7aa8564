import { hash } from 'node:crypto';
import { packWire } from '../../minion-protocol/index.ts';
import { MarkRing } from './mark-ring.ts';
import { type Reply, send, type VerifiedRequest } from './request.ts';

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
  readonly done: MarkRing;
  /** Replies other than the usual one, if there were any. */
  odd: Map<string, OddReply> | undefined;
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
  readonly #marks = new Map<string, Marks>();
  /** By minion and digest. */
  readonly #underWay = new Map<string, Promise<Reply>>();

  constructor(options: RepeatGuardOptions) {
    this.#options = options;
  }

  /** Runs the request, or gives what it was answered the first time. */
  async once(request: VerifiedRequest, run: () => Promise<Reply>): Promise<Reply> {
    const digest = requestDigest(request);
    if (request.minionId === undefined || digest === undefined) return run();
    const name = digest.toString('latin1');
    const key = `${request.minionId} ${name}`;
    const marks = this.#marksOf(request.minionId);
    const first = this.#underWay.get(key) ?? marks.odd?.get(name)?.reply;
    if (first !== undefined) return first;
    if (marks.done.has(digest)) return usualReply;
    const reply = run();
    this.#underWay.set(key, reply);
    try {
      this.#keep(marks, name, digest, await reply, this.#expiry(request));
    } finally {
      this.#underWay.delete(key);
    }
    return reply;
  }

  /** Forgets a minion's marks; its keys are no longer good, so nothing of it can be repeated. */
  forget(minionId: string): void {
    this.#marks.delete(minionId);
  }

  #keep(marks: Marks, name: string, digest: Buffer, reply: Reply, expiresAt: number): void {
    const now = this.#options.now() / 1000;
    marks.done.removeExpired(now);
    if (reply.kind === 'send' && reply.value === null) {
      marks.done.add(digest, expiresAt);
      return;
    }
    marks.odd ??= new Map();
    marks.odd.set(name, { reply, expiresAt });
    for (const [oldest, mark] of marks.odd) {
      if (marks.odd.size <= maxPerMinion && mark.expiresAt >= now) return;
      marks.odd.delete(oldest);
    }
  }

  /** After that the time stamp itself is refused. */
  #expiry({ ts }: VerifiedRequest): number {
    const { ttlSeconds } = this.#options;
    return ts === undefined || ttlSeconds === 0 ? Number.POSITIVE_INFINITY : ts + ttlSeconds;
  }

  #marksOf(minionId: string): Marks {
    const known = this.#marks.get(minionId);
    if (known !== undefined) return known;
    const fresh = { done: new MarkRing(maxPerMinion), odd: undefined };
    this.#marks.set(minionId, fresh);
    return fresh;
  }
}

/** Tells a request of a minion from its others, to be kept beside its effect; none without nonce. */
export function requestMark(request: VerifiedRequest): string | undefined {
  return requestDigest(request)?.toString('base64');
}

/** Of nonce and load, but `ts`: a client that repeats a request may stamp it anew. */
function requestDigest({ nonce, load }: VerifiedRequest): Buffer | undefined {
  if (nonce === undefined) return undefined;
  const { ts: _ts, ...rest } = load;
  return hash('sha256', packWire([nonce, rest]), 'buffer');
}
