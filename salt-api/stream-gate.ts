import { SaltApiError } from './errors.ts';

/** Whoever has streams. */
export interface StreamOwner {
  streams: number;
}

/** Bounds the event streams that are open, in all and of one owner [THREATS A-18]. */
export class StreamGate {
  readonly #max: number;
  readonly #maxOfOwner: number;
  #open = 0;

  constructor(max: number, maxOfOwner: number) {
    this.#max = max;
    this.#maxOfOwner = maxOfOwner;
  }

  /** @returns to be called once, at the end @throws SaltApiError ERR_HTTP_STREAMS */
  enter(owner: StreamOwner): () => void {
    if (this.#open >= this.#max || owner.streams >= this.#maxOfOwner) {
      throw new SaltApiError('ERR_HTTP_STREAMS', 'too many event streams are open');
    }
    this.#open += 1;
    owner.streams += 1;
    return () => {
      this.#open -= 1;
      owner.streams -= 1;
    };
  }
}
