import { createHash } from 'node:crypto';
import { Budget } from '../runtime/index.ts';
import { SaltApiError } from './errors.ts';

/** Bounds the event streams that are open, in all and of one log-in [THREATS A-18]. */
export class StreamGate {
  readonly #places: Budget;

  constructor(total: number, perToken: number) {
    // protection: streams-per-token
    this.#places = new Budget({ total, perOwner: perToken });
  }

  /** Streams that are open. */
  get open(): number {
    return this.#places.total;
  }

  /** @returns to be called once, at the end; `undefined`: as many are open as may be */
  tryEnter(token: string): (() => void) | undefined {
    const owner = createHash('sha256').update(token).digest('hex');
    return this.#places.tryTake(owner) ? () => this.#places.release(owner) : undefined;
  }

  /** As {@link tryEnter}. @throws SaltApiError ERR_HTTP_STREAMS */
  enter(token: string): () => void {
    const leave = this.tryEnter(token);
    if (leave !== undefined) return leave;
    throw new SaltApiError('ERR_HTTP_STREAMS', 'too many event streams are open');
  }
}
