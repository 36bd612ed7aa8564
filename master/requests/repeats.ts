import { createHash } from 'node:crypto';
import { packWire } from '../../minion-protocol/index.ts';
import type { Reply, VerifiedRequest } from './request.ts';

/** As many as a minion may send events in the 300 s that its time stamps are good for, and more. */
const maxPerMinion = 8_192;

interface Mark {
  readonly reply: Promise<Reply>;
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
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
 * the time stamp of its request is refused anyway; requests without one keep theirs.
 */
export class RepeatGuard {
  readonly #options: RepeatGuardOptions;
  readonly #marks = new Map<string, Map<string, Mark>>();

  constructor(options: RepeatGuardOptions) {
    this.#options = options;
  }

  /** Runs the request, or gives what it was answered the first time. */
  async once(request: VerifiedRequest, run: () => Promise<Reply>): Promise<Reply> {
    const name = requestMark(request);
    if (request.minionId === undefined || name === undefined) return run();
    const marks = this.#marksOf(request.minionId);
    const first = marks.get(name);
    if (first !== undefined) return first.reply;
    const reply = run();
    marks.set(name, { reply, expiresAt: this.#expiry(request) });
    this.#forgetOldest(marks);
    return reply;
  }

  /** Forgets a minion's marks; its keys are no longer good, so nothing of it can be repeated. */
  forget(minionId: string): void {
    this.#marks.delete(minionId);
  }

  /** A time stamp may lie in the future by as much as in the past. */
  #expiry({ ts }: VerifiedRequest): number {
    const { ttlSeconds, now } = this.#options;
    if (ts === undefined || ttlSeconds === 0) return Number.POSITIVE_INFINITY;
    return now() + 2 * ttlSeconds * 1000;
  }

  #forgetOldest(marks: Map<string, Mark>): void {
    const now = this.#options.now();
    for (const [name, { expiresAt }] of marks) {
      if (marks.size <= maxPerMinion && expiresAt > now) return;
      marks.delete(name);
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

/** Tells a request of a minion from its others, by nonce and load without `ts`; none without nonce. */
export function requestMark({ nonce, load }: VerifiedRequest): string | undefined {
  if (nonce === undefined) return undefined;
  const { ts: _ts, ...rest } = load;
  return `${nonce} ${createHash('sha256').update(packWire(rest)).digest('base64')}`;
}
