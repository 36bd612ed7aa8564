import type { WorkMeter } from '#runtime';
import { LimitExceeded } from './exceptions.ts';

/** Limits of the resources that one rendering may use. */
export interface TemplateLimits {
  /**
   * Maximum number of statements, loop iterations, calls and processed elements. Default:
   * 2,000,000.
   */
  readonly steps: number;
  /** Maximum nesting of macros, blocks, includes, imports and recursive loops. Default: 100. */
  readonly depth: number;
  /**
   * Maximum total length of the texts that a rendering creates, in characters. This includes the
   * result. Default: 33,554,432.
   */
  readonly characters: number;
  /**
   * Maximum CPU time, in milliseconds. It also limits work that `steps` does not count. The time is
   * checked only every few steps. Default: none.
   */
  readonly milliseconds: number;
}

/** Default limits. */
const defaultTemplateLimits: TemplateLimits = {
  steps: 2_000_000,
  depth: 100,
  characters: 33_554_432,
  milliseconds: Number.POSITIVE_INFINITY,
};

/** Number of calls between two checks of the CPU time. */
const callsPerTimeCheck = 16;

const maxNesting = 200;
const maxSize = 4_000_000;

/**
 * Conversion factor: one step of a rendering takes as long as this number of steps of a
 * {@link WorkMeter}.
 */
const workPerStep = 10;

/**
 * Returns the CPU time of this thread, in milliseconds. Node.js before 22.19 can measure only the
 * CPU time of the whole process, which is then returned. Elapsed time is not used, because a limit
 * on it would reject valid files on a busy machine.
 */
function threadCpuTime(): number {
  const { user, system } = process.threadCpuUsage?.() ?? process.cpuUsage();
  return (user + system) / 1000;
}

/** Counts the steps, depth, characters and CPU time that a rendering uses. */
export class UsageMeter implements WorkMeter {
  readonly #limits: TemplateLimits;
  #steps = 0;
  #characters = 0;
  #depth = 0;
  #calls = 0;
  #maxSize = maxSize;
  readonly #clock: () => number;
  readonly #startedAt: number;

  /** @param clock - returns the CPU time of this thread, in milliseconds since any fixed time */
  constructor(limits: Partial<TemplateLimits> = {}, clock: () => number = threadCpuTime) {
    this.#limits = { ...defaultTemplateLimits, ...limits };
    this.#clock = clock;
    this.#startedAt = clock();
  }

  /** Returns a meter without limits, for data that is limited elsewhere. */
  static unlimited(): UsageMeter {
    const none = Number.POSITIVE_INFINITY;
    const meter = new UsageMeter({ steps: none, depth: none, characters: none });
    meter.#maxSize = none;
    return meter;
  }

  /** Creates a guard for one recursive walk over data. */
  walk(): RecursionGuard {
    return new RecursionGuard(this.#maxSize);
  }

  /**
   * Counts steps.
   * @throws LimitExceeded
   */
  step(count = 1): void {
    this.#steps += count;
    if (!(this.#steps <= this.#limits.steps)) throw new LimitExceeded('steps', this.#limits.steps);
    this.#calls += 1;
    if (this.#calls % callsPerTimeCheck === 0) this.#look();
  }

  /**
   * Counts comparisons towards the limit of steps, where 16 comparisons are one step. Call this
   * method before the comparison.
   * @throws LimitExceeded
   */
  comparisons(count: number): void {
    this.step(Math.ceil(count / 16));
  }

  /**
   * Counts steps of work outside the rendering itself, for example compiling a pattern.
   * @throws LimitExceeded
   */
  spend(_part: string, steps: number): void {
    this.step(steps / workPerStep);
  }

  /**
   * Counts memory that the rendering uses until its end.
   * @throws LimitExceeded
   */
  hold(_part: string, bytes: number): void {
    this.text(bytes / 2);
  }

  /**
   * Throws the error for an exceeded limit that another component has checked.
   * @throws LimitExceeded
   */
  refuse(part: string, limit: number, unit: string): never {
    throw new LimitExceeded(`${unit} of ${part}`, limit);
  }

  #look(): void {
    const { milliseconds } = this.#limits;
    if (this.#clock() - this.#startedAt <= milliseconds) return;
    throw new LimitExceeded('milliseconds', milliseconds);
  }

  /**
   * Counts characters. Call this method before a text of that length is created.
   * @throws LimitExceeded
   */
  text(length: number): void {
    this.#characters += length;
    if (!(this.#characters <= this.#limits.characters)) {
      throw new LimitExceeded('characters', this.#limits.characters);
    }
  }

  /**
   * Counts one more nesting level of the template.
   * @throws LimitExceeded
   */
  enter(): void {
    this.#depth += 1;
    if (this.#depth > this.#limits.depth) throw new LimitExceeded('depth', this.#limits.depth);
  }

  leave(): void {
    this.#depth -= 1;
  }
}

/**
 * Limits the depth and the number of elements of a walk over nested data. A small template can
 * build nested lists, each of which contains the next one twice. Without a limit, printing,
 * comparing or copying them would take exponential time.
 */
export class RecursionGuard {
  readonly #inside: object[] = [];
  readonly #maxSize: number;
  #left: number;

  /**
   * @param size - maximum number of elements and characters in one walk, counted together. Default:
   * 4,000,000
   */
  constructor(size: number = maxSize) {
    this.#maxSize = size;
    this.#left = size;
  }

  /**
   * Counts elements or characters.
   * @throws LimitExceeded
   */
  take(size: number): void {
    this.#left -= size;
    if (this.#left < 0) throw new LimitExceeded('elements of data', this.#maxSize);
  }

  isInside(value: object): boolean {
    return this.#inside.includes(value);
  }

  /**
   * Calls `look` to walk over the elements of `value`. Counts the value as one element, and checks
   * the nesting depth.
   * @throws LimitExceeded
   */
  into<T>(value: object, look: () => T): T {
    this.take(1);
    if (this.#inside.length >= maxNesting) throw new LimitExceeded('levels of data', maxNesting);
    this.#inside.push(value);
    const result = look();
    this.#inside.pop();
    return result;
  }
}
