import { LimitExceeded } from './raise.ts';

const maxNesting = 200;
const maxSize = 4_000_000;

/**
 * A walk over nested data, bounded by itself: lists that hold one list twice, level over level,
 * would otherwise make a small template print, compare or copy without end.
 */
export class Walk {
  readonly #inside: object[] = [];
  #left = maxSize;

  /** @throws LimitExceeded */
  take(size: number): void {
    this.#left -= size;
    if (this.#left < 0) throw new LimitExceeded('elements of data', maxSize);
  }

  isInside(value: object): boolean {
    return this.#inside.includes(value);
  }

  /** @throws LimitExceeded */
  into<T>(value: object, look: () => T): T {
    this.take(1);
    if (this.#inside.length >= maxNesting) throw new LimitExceeded('levels of data', maxNesting);
    this.#inside.push(value);
    const result = look();
    this.#inside.pop();
    return result;
  }
}
