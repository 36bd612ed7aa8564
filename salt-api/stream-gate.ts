import { createHash } from 'node:crypto';
import { SaltApiError } from './errors.ts';

/** Bounds the event streams that are open, in all and of one log-in [THREATS A-18]. */
export class StreamGate {
  readonly #max: number;
  readonly #maxOfToken: number;
  readonly #ofTokens = new Map<string, number>();
  #open = 0;

  constructor(max: number, maxOfToken: number) {
    this.#max = max;
    this.#maxOfToken = maxOfToken;
  }

  /** Streams that are open. */
  get open(): number {
    return this.#open;
  }

  /** @returns to be called once, at the end @throws SaltApiError ERR_HTTP_STREAMS */
  enter(token: string): () => void {
    const hash = createHash('sha256').update(token).digest('hex');
    const open = this.#ofTokens.get(hash) ?? 0;
    if (this.#open >= this.#max || open >= this.#maxOfToken) {
      throw new SaltApiError('ERR_HTTP_STREAMS', 'too many event streams are open');
    }
    this.#open += 1;
    this.#ofTokens.set(hash, open + 1);
    return () => this.#leave(hash);
  }

  #leave(hash: string): void {
    this.#open -= 1;
    const left = (this.#ofTokens.get(hash) ?? 1) - 1;
    if (left > 0) this.#ofTokens.set(hash, left);
    else this.#ofTokens.delete(hash);
  }
}
