/**
 * The budget of work that text from outside may cause. It counts steps and bytes, never time, so
 * that the same input always has the same result. A step takes roughly ten nanoseconds.
 */

import { type Channel, channel } from 'node:diagnostics_channel';
import { type ErrorEntry, SaltbridgeError } from './errors.ts';

export const workErrors = {
  ERR_WORK_LIMIT: {
    meaning: 'A pattern, target or filter of the request takes more work than one request may.',
    action: 'Shorten or simplify the part that the message names, or split the request.',
  },
} as const satisfies Readonly<Record<string, ErrorEntry>>;

/** Counter of work. Functions that evaluate or parse text from outside take it. */
export interface WorkMeter {
  /**
   * Counts steps before they are taken.
   * @param part name of the work, for the message
   * @throws Error if the limit is exceeded
   */
  spend(part: string, steps: number): void;
  /**
   * Counts bytes before they are allocated.
   * @param part name of what they hold, for the message
   * @throws Error if the limit is exceeded
   */
  hold(part: string, bytes: number): void;
  /**
   * Refuses a part that exceeds a limit of its own.
   * @throws Error always
   */
  refuse(part: string, limit: number, unit: string): never;
}

/** The error of work that exceeds its budget. The message names the expensive part. */
export class WorkLimitExceeded extends SaltbridgeError<'ERR_WORK_LIMIT'> {
  /** Name of the expensive part. */
  readonly part: string;

  constructor(part: string, limit: number, unit: string) {
    const advice = 'use fewer, shorter or simpler patterns';
    super('ERR_WORK_LIMIT', `${part} takes more than ${limit} ${unit}; ${advice}`);
    this.part = part;
  }
}

/** Limits of a {@link WorkBudget}. */
export interface WorkLimits {
  readonly steps: number;
  /** Bytes of compiled patterns and of texts that are made of values. Defaults to 8,388,608. */
  readonly bytes?: number;
}

const defaultBytes = 8_388_608;

/** Limits of one request of a minion. */
export const minionWork: WorkLimits = { steps: 25_000_000 };
/** Limits of one request of a user or of the operator. */
export const userWork: WorkLimits = { steps: 1_000_000_000 };
/** Limits of one stored target or pattern, each time that it is evaluated. */
export const storedWork: WorkLimits = { steps: 200_000, bytes: 1_048_576 };

/** Steps that work may take before it gives way to other work: about one millisecond. */
export const maxSliceSteps = 100_000;

/** Publishes the number of steps of each slice that ends by giving way. */
export const workSlices: Channel = channel('saltbridge.work.slice');

/** Budget of one request. The parts of the request share it. */
export class WorkBudget implements WorkMeter {
  readonly #limits: Required<WorkLimits>;
  #steps = 0;
  #bytes = 0;
  #sliceStart = 0;

  constructor({ steps, bytes = defaultBytes }: WorkLimits) {
    this.#limits = { steps, bytes };
  }

  /** Steps that were counted so far. */
  get steps(): number {
    return this.#steps;
  }

  /** Bytes that were counted so far. */
  get bytes(): number {
    return this.#bytes;
  }

  /** @throws WorkLimitExceeded */
  spend(part: string, steps: number): void {
    this.#steps += steps;
    const { steps: limit } = this.#limits;
    if (!(this.#steps <= limit)) throw new WorkLimitExceeded(part, limit, 'steps');
  }

  /** @throws WorkLimitExceeded */
  hold(part: string, bytes: number): void {
    this.#bytes += bytes;
    const { bytes: limit } = this.#limits;
    if (!(this.#bytes <= limit)) throw new WorkLimitExceeded(part, limit, 'bytes');
  }

  /** @throws WorkLimitExceeded */
  refuse(part: string, limit: number, unit: string): never {
    throw new WorkLimitExceeded(part, limit, unit);
  }

  /** Counts steps of a budget of its own, as part of the present slice alone. */
  addToSlice(steps: number): void {
    this.#sliceStart -= steps;
  }

  /** Whether the work should give way: see {@link WorkBudget.giveWay}. */
  get isSliceOver(): boolean {
    return this.#steps - this.#sliceStart >= maxSliceSteps;
  }

  /** Resolves when it is the turn of this work again. Each turn of the event loop has one slice. */
  async giveWay(): Promise<void> {
    workSlices.publish(this.#steps - this.#sliceStart);
    await nextTurn();
    this.#sliceStart = this.#steps;
  }
}

const waiting: (() => void)[] = [];
let isScheduled = false;

function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    schedule();
  });
}

function schedule(): void {
  if (isScheduled || waiting.length === 0) return;
  isScheduled = true;
  setImmediate(() => {
    isScheduled = false;
    waiting.shift()?.();
    schedule();
  });
}
