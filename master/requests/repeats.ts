import { createHash } from 'node:crypto';
import { packWire } from '../../minion-protocol/index.ts';
import type { Reply, VerifiedRequest } from './request.ts';

/** As many as a minion may send events in the 300 s that its time stamps are good for, and more. */
const maxPerMinion = 8_192;

interface Mark {
  readonly reply: Promise<Reply>;
  /** Milliseconds since 1970, from which on a repeat is refused by its time stamp anyway. */
  readonly forgetAt: number;
}

/**
 * Requests that change something, and what they were answered. Salt's clients repeat a packed
 * request whose answer was lost; the repeat has no second effect and gets the same answer
 * [THREATS C-43]. Known by (id, nonce, digest of the load without `ts`); each minion has marks of its own, so none can
 * flush another's.
 */
export class RepeatGuard {
  readonly #marks = new Map<string, Map<string, Mark>>();
  readonly #ttlMs: number;
  readonly #now: () => number;

  /** @param ttlSeconds `request_server_ttl`; 0: marks are kept as long as there is room */
  constructor(ttlSeconds: number, now: () => number) {
    this.#ttlMs = ttlSeconds === 0 ? Number.POSITIVE_INFINITY : ttlSeconds * 1000;
    this.#now = now;
  }

  /** Runs the request, or gives what it was answered the first time. */
  async once(request: VerifiedRequest, run: () => Promise<Reply>): Promise<Reply> {
    const { minionId, nonce } = request;
    if (minionId === undefined || nonce === undefined) return run();
    const marks = this.#marksOf(minionId);
    const mark = `${nonce} ${digestOf(request)}`;
    const first = marks.get(mark);
    if (first !== undefined) return first.reply;
    const reply = run();
    marks.set(mark, { reply, forgetAt: this.#forgetAt(request) });
    this.#forgetOld(marks);
    return reply;
  }

  /** Forgets a minion's marks; its keys are no longer good, so nothing of it can be repeated. */
  forget(minionId: string): void {
    this.#marks.delete(minionId);
  }

  /** Versions 0 to 2 carry no time: their marks stay as long as there is room. */
  #forgetAt({ ts }: VerifiedRequest): number {
    return ts === undefined ? Number.POSITIVE_INFINITY : ts * 1000 + this.#ttlMs;
  }

  #forgetOld(marks: Map<string, Mark>): void {
    const now = this.#now();
    for (const [mark, { forgetAt }] of marks) {
      if (marks.size <= maxPerMinion && now <= forgetAt) return;
      marks.delete(mark);
    }
  }

  #marksOf(minionId: string): Map<string, Mark> {
    const known = this.#marks.get(minionId);
    if (known !== undefined) return known;
    const fresh = new Map<string, Mark>();
    this.#marks.set(minionId, fresh);
    return fresh;
  }
}

function digestOf({ load }: VerifiedRequest): string {
  const { ts: _ts, ...rest } = load;
  return createHash('sha256').update(packWire(rest)).digest('base64');
}
