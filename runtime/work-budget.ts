/**
 * Limits the work that untrusted text, such as a pattern of a request, may cause. The work is
 * counted in steps and bytes, not in time, so that the same input always has the same result. A
 * step takes roughly ten nanoseconds.
 */

import { type Channel, channel } from 'node:diagnostics_channel';
import { type ErrorEntry, SaltbridgeError } from './errors.ts';
import { LinkedList, type ListNode } from './linked-list.ts';

export const workErrors = {
  ERR_WORK_LIMIT: {
    meaning: 'A pattern, target or filter of the request exceeds the work limit of a request.',
    action: 'Shorten or simplify the part that the message names, or split the request.',
  },
} as const satisfies Readonly<Record<string, ErrorEntry>>;

/** Counter of work. Functions that parse or evaluate untrusted text take one as a parameter. */
export interface WorkMeter {
  /**
   * Counts steps. Call it before the work is done.
   * @param part - name of the work, for the error message
   * @throws Error if the limit is exceeded
   */
  spend(part: string, steps: number): void;
  /**
   * Counts bytes. Call it before they are allocated.
   * @param part - name of the data in these bytes, for the error message
   * @throws Error if the limit is exceeded
   */
  hold(part: string, bytes: number): void;
  /**
   * Rejects a part of the text that exceeds a separate limit, for example a maximum length.
   * @throws Error always
   */
  refuse(part: string, limit: number, unit: string): never;
}

/**
 * Error of work that exceeds its budget. The message names the data or work that was too expensive.
 */
export class WorkLimitExceeded extends SaltbridgeError<'ERR_WORK_LIMIT'> {
  /** Name of the data or work that exceeded the budget, for example `a glob`. */
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
  /**
   * Maximum size of compiled patterns and of texts created from values, in bytes. Default:
   * 8,388,608.
   */
  readonly bytes?: number;
}

const defaultBytes = 8_388_608;

/** Limits of the work that one request from a minion may cause. */
export const minionWork: WorkLimits = { steps: 25_000_000 };
/** Limits of the work that one request from a user or the operator may cause. */
export const userWork: WorkLimits = { steps: 1_000_000_000 };
/** Limits of the work that each evaluation of a stored target or pattern may cause. */
export const storedWork: WorkLimits = { steps: 200_000, bytes: 1_048_576 };
/**
 * No maximum number of steps, for work that other limits already bound. The budget only divides the
 * work into slices.
 */
export const unlimitedSteps: WorkLimits = { steps: Infinity };

/** Number of steps after which work must yield to other work: about one millisecond. */
export const maxSliceSteps = 100_000;

/** Diagnostics channel. After each slice of work, it publishes the number of steps in the slice. */
export const workSlices: Channel = channel('saltbridge.work.slice');

/** Work budget of one request. All parts of the request share the budget. */
export class WorkBudget implements WorkMeter {
  /**
   * Name of the owner of this budget. When work takes turns, all budgets of one owner share the
   * turns of that owner. If `undefined`, this budget has its own turns.
   */
  readonly owner: string | undefined;
  readonly #limits: Required<WorkLimits>;
  #steps = 0;
  #bytes = 0;
  #sliceStart = 0;

  /**
   * @param owner - kind and name of the requester, such as `minion web1`. Owners take turns, and
   * all budgets of one owner together have one turn. Default: the budget has a turn of its own
   */
  constructor({ steps, bytes = defaultBytes }: WorkLimits, owner?: string) {
    this.#limits = { steps, bytes };
    this.owner = owner;
  }

  /** Number of steps counted so far. */
  get steps(): number {
    return this.#steps;
  }

  /** Number of bytes counted so far. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Counts steps of work.
   * @param part - name of the work, for the error message
   * @throws WorkLimitExceeded if the limit on steps is exceeded
   */
  spend(part: string, steps: number): void {
    this.#steps += steps;
    const { steps: limit } = this.#limits;
    if (!(this.#steps <= limit)) throw new WorkLimitExceeded(part, limit, 'steps');
  }

  /**
   * Counts bytes of memory that the work uses.
   * @param part - name of the work, for the error message
   * @throws WorkLimitExceeded if the limit on bytes is exceeded
   */
  hold(part: string, bytes: number): void {
    this.#bytes += bytes;
    const { bytes: limit } = this.#limits;
    if (!(this.#bytes <= limit)) throw new WorkLimitExceeded(part, limit, 'bytes');
  }

  /**
   * Rejects a part that exceeds a separate limit, for example a maximum length.
   * @throws WorkLimitExceeded always
   */
  refuse(part: string, limit: number, unit: string): never {
    throw new WorkLimitExceeded(part, limit, unit);
  }

  /**
   * Counts steps towards the current slice, but not towards the limit of this budget. Use it, for
   * example, for work that another budget limits.
   */
  addToSlice(steps: number): void {
    this.#sliceStart -= steps;
  }

  /**
   * Counts steps towards the current slice of work, and lets other work run if the slice is over.
   * The steps do not count towards the limit of this budget. Use it for work whose amount does not
   * depend on the request, such as reading stored data.
   */
  async giveWayAfter(steps: number): Promise<void> {
    this.addToSlice(steps);
    if (this.isSliceOver) await this.giveWay();
  }

  /**
   * Whether the current slice has used up its steps, so that the work must call
   * {@link WorkBudget.giveWay}.
   */
  get isSliceOver(): boolean {
    return this.#steps - this.#sliceStart >= maxSliceSteps;
  }

  /**
   * Lets other work run. Resolves when this work may continue. Each iteration of the event loop
   * runs one slice of one waiting task. The owners of waiting tasks take turns.
   */
  async giveWay(): Promise<void> {
    workSlices.publish(this.#steps - this.#sliceStart);
    await nextTurn(this.owner ?? this);
    this.#sliceStart = this.#steps;
  }
}

interface WaitingSlice extends ListNode<WaitingSlice> {
  readonly start: () => void;
}

/**
 * Owner with work that waits to continue. Owners take turns: in each turn, one of them runs one
 * slice of its work.
 */
interface SliceOwner extends ListNode<SliceOwner> {
  /** Name of the owner. Work without a named owner is identified by its budget instead. */
  readonly name: string | WorkBudget;
  readonly slices: LinkedList<WaitingSlice>;
}

const owners = new Map<SliceOwner['name'], SliceOwner>();
/** Owners whose work waits for its next slice, in the order of their turns. */
const ring = new LinkedList<SliceOwner>();
let isScheduled = false;

function nextTurn(name: SliceOwner['name']): Promise<void> {
  return new Promise((start) => {
    let owner = owners.get(name);
    if (owner === undefined) {
      owner = { name, slices: new LinkedList(), previous: undefined, next: undefined };
      owners.set(name, owner);
      ring.append(owner);
    }
    owner.slices.append({ start, previous: undefined, next: undefined });
    schedule();
  });
}

function schedule(): void {
  if (isScheduled || ring.first === undefined) return;
  isScheduled = true;
  setImmediate(() => {
    isScheduled = false;
    takeNext()?.start();
    schedule();
  });
}

/** Removes and returns the first slice of the owner whose turn it is. */
function takeNext(): WaitingSlice | undefined {
  const owner = ring.first;
  const slice = owner?.slices.first;
  if (owner === undefined || slice === undefined) return undefined;
  owner.slices.remove(slice);
  ring.remove(owner);
  if (owner.slices.first === undefined) owners.delete(owner.name);
  else ring.append(owner);
  return slice;
}
