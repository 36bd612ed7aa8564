import type { WorkMeter } from '#runtime';
import { LimitExceeded } from './exceptions.ts';

/** How much one rendering may take. */
export interface TemplateLimits {
  /** Statements, loop turns, calls and elements that are touched. Default 2,000,000. */
  readonly steps: number;
  /** Macros, blocks, includes, imports and recursive loops inside of each other. Default 100. */
  readonly depth: number;
  /** Characters of all texts that are made on the way, the result included. Default 33,554,432. */
  readonly characters: number;
  /**
   * Time that it takes, looked at every few steps: what bounds work that no count foresees.
   * Default: none.
   */
  readonly milliseconds: number;
}

/** The limits where nothing else is said. */
const defaultTemplateLimits: TemplateLimits = {
  steps: 2_000_000,
  depth: 100,
  characters: 33_554_432,
  milliseconds: Number.POSITIVE_INFINITY,
};

/** Calls between two looks at the clock. */
const callsPerClockCheck = 16;

const maxNesting = 200;
const maxSize = 4_000_000;

/** A step of a rendering takes the time of so many steps of a {@link WorkMeter}. */
const workPerStep = 10;

/** Counts what a rendering takes. */
export class UsageMeter implements WorkMeter {
  readonly #limits: TemplateLimits;
  #steps = 0;
  #characters = 0;
  #depth = 0;
  #calls = 0;
  #maxSize = maxSize;
  readonly #clock: () => number;
  readonly #startedAt: number;

  /** @param clock milliseconds since whenever */
  constructor(limits: Partial<TemplateLimits> = {}, clock: () => number = () => performance.now()) {
    this.#limits = { ...defaultTemplateLimits, ...limits };
    this.#clock = clock;
    this.#startedAt = clock();
  }

  /** For data that is bounded elsewhere. */
  static unlimited(): UsageMeter {
    const none = Number.POSITIVE_INFINITY;
    const meter = new UsageMeter({ steps: none, depth: none, characters: none });
    meter.#maxSize = none;
    return meter;
  }

  /** Bounds one walk over data. */
  walk(): RecursionGuard {
    return new RecursionGuard(this.#maxSize);
  }

  /** @throws LimitExceeded */
  step(count = 1): void {
    this.#steps += count;
    if (!(this.#steps <= this.#limits.steps)) throw new LimitExceeded('steps', this.#limits.steps);
    this.#calls += 1;
    if (this.#calls % callsPerClockCheck === 0) this.#look();
  }

  /**
   * To be called before so many values are compared, which takes less than a step for each.
   * @throws LimitExceeded
   */
  comparisons(count: number): void {
    this.step(Math.ceil(count / 16));
  }

  /** Counts work that is not measured in steps of a rendering. @throws LimitExceeded */
  spend(_part: string, steps: number): void {
    this.step(steps / workPerStep);
  }

  /** @throws LimitExceeded */
  hold(_part: string, bytes: number): void {
    this.text(bytes / 2);
  }

  /** @throws LimitExceeded */
  refuse(part: string, limit: number, unit: string): never {
    throw new LimitExceeded(`${unit} of ${part}`, limit);
  }

  #look(): void {
    const { milliseconds } = this.#limits;
    if (this.#clock() - this.#startedAt <= milliseconds) return;
    throw new LimitExceeded('milliseconds', milliseconds);
  }

  /**
   * To be called before a text of that length is made.
   * @throws LimitExceeded
   */
  text(length: number): void {
    this.#characters += length;
    if (!(this.#characters <= this.#limits.characters)) {
      throw new LimitExceeded('characters', this.#limits.characters);
    }
  }

  /** @throws LimitExceeded */
  enter(): void {
    this.#depth += 1;
    if (this.#depth > this.#limits.depth) throw new LimitExceeded('depth', this.#limits.depth);
  }

  leave(): void {
    this.#depth -= 1;
  }
}

/**
 * A walk over nested data, bounded by itself: lists that hold one list twice, level over level,
 * would otherwise make a small template print, compare or copy without end.
 */
export class RecursionGuard {
  readonly #inside: object[] = [];
  readonly #maxSize: number;
  #left: number;

  /** @param size elements, and characters of texts */
  constructor(size: number = maxSize) {
    this.#maxSize = size;
    this.#left = size;
  }

  /** @throws LimitExceeded */
  take(size: number): void {
    this.#left -= size;
    if (this.#left < 0) throw new LimitExceeded('elements of data', this.#maxSize);
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
