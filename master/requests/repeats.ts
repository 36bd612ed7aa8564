import { createHash } from 'node:crypto';
import { packWire } from '../../minion-protocol/index.ts';
import type { Reply, VerifiedRequest } from './request.ts';

/** As many as a minion may send events in the 300 s that its time stamps are good for, and more. */
const maxPerMinion = 8_192;

/**
 * Requests that change something, and what they were answered. Salt's clients repeat a packed
 * request whose answer was lost; the repeat has no second effect and gets the same answer
 * [THREATS C-43]. Known by (id, nonce, digest of the load without `ts`); each minion has marks of its own, so none can
 * flush another's.
 */
export class RepeatGuard {
  readonly #marks = new Map<string, Map<string, Promise<Reply>>>();

  /** Runs the request, or gives what it was answered the first time. */
  async once(request: VerifiedRequest, run: () => Promise<Reply>): Promise<Reply> {
    const { minionId, nonce } = request;
    if (minionId === undefined || nonce === undefined) return run();
    const marks = this.#marksOf(minionId);
    const mark = `${nonce} ${digestOf(request)}`;
    const first = marks.get(mark);
    if (first !== undefined) return first;
    const reply = run();
    marks.set(mark, reply);
    const [oldest] = marks.keys();
    if (marks.size > maxPerMinion && oldest !== undefined) marks.delete(oldest);
    return reply;
  }

  /** Forgets a minion's marks; its keys are no longer good, so nothing of it can be repeated. */
  forget(minionId: string): void {
    this.#marks.delete(minionId);
  }

  #marksOf(minionId: string): Map<string, Promise<Reply>> {
    const known = this.#marks.get(minionId);
    if (known !== undefined) return known;
    const fresh = new Map<string, Promise<Reply>>();
    this.#marks.set(minionId, fresh);
    return fresh;
  }
}

function digestOf({ load }: VerifiedRequest): string {
  const { ts: _ts, ...rest } = load;
  return createHash('sha256').update(packWire(rest)).digest('base64');
}
