/** Limits on concurrent runs of commands. Further runs are queued or rejected. */

import { type FairSlot, FairSlots, LinkedList, type ListNode, unlimitedWaiting } from '#runtime';
import { BridgeError } from '../errors.ts';
import { bridgeLimits } from '../limits.ts';
import type { CommandDefinition } from './command-definition.ts';

/** Slot of a run within its command's limits on concurrent runs, in total and on each minion. */
export interface RunSlot {
  /** Resolves when the run may start. */
  readonly entered: Promise<void>;
  /** Whether the run had to wait for its slot. */
  readonly isQueued: boolean;
  /** Releases the slot. If the run is still waiting, removes it from the queue. */
  leave(): void;
}

/** Run that waits or is active. */
interface Run {
  readonly owner: string;
  /**
   * Position of the run in the order of all runs of the command. Runs with lower positions start
   * first. The positions of a caller's own runs increase. Runs of different callers can have the
   * same position, so that callers take turns.
   */
  readonly turn: number;
  /**
   * Number of the run in order of arrival. Of two runs with equal positions (`turn`), the one that
   * arrived earlier starts first.
   */
  readonly number: number;
  readonly seats: readonly Seat[];
  /** Number of minions on which the run must still wait for other runs. At 0, the run starts. */
  missing: number;
  state: 'waiting' | 'seated' | 'left';
  total: FairSlot | undefined;
  readonly onSeated: () => void;
}

/** Entry of a run in the queue of one minion. */
interface Seat extends ListNode<Seat> {
  readonly run: Run;
  readonly line: Line;
}

/** Queue of the runs of one command on one minion, with the number of active runs there. */
interface Line {
  readonly key: string;
  readonly limit: number;
  active: number;
  /** Waiting runs by caller, in the order of arrival. */
  readonly waiting: Map<string, LinkedList<Seat>>;
  /**
   * Entry of the run that starts next on this minion. `undefined` if no run waits, or if the limit
   * of active runs is reached.
   */
  next: Seat | undefined;
}

/** Runs of one command. */
interface CommandRuns {
  /** Number of runs that have not started. */
  waiting: number;
  /**
   * For each caller: the number of runs that have not started (`waiting`), and the position of the
   * caller's latest run in the order of all runs (`turn`).
   */
  readonly owners: Map<string, { waiting: number; turn: number }>;
  /**
   * Highest position (`turn`) of all runs that have left the queues of their minions. Each new run
   * gets a higher position than this.
   */
  turn: number;
  readonly slots: FairSlots;
}

/**
 * Factor by which the option `queue` is multiplied for callers that have no waiting run. Another
 * caller that fills the queue therefore cannot keep them out.
 */
const queueShare = 2;

/**
 * Limits concurrent runs for each command and minion. On each minion, runs start in order, and
 * callers take turns. The cost of an operation grows linearly with the number of minions of the run
 * and the number of waiting callers.
 */
export class RunConcurrency {
  readonly #lines = new Map<string, Line>();
  readonly #commands = new Map<string, CommandRuns>();
  #arrived = 0;

  /**
   * Takes a slot for a run, or queues the run.
   * @param owner - name of the caller
   * @throws BridgeError ERR_COMMAND_BUSY if the queue is full
   */
  enter(
    { name, concurrency = {} }: CommandDefinition,
    minions: readonly string[],
    owner: string,
  ): RunSlot {
    const { perTarget = Infinity, total = Infinity, queue = 0 } = concurrency;
    const command = this.#commandOf(name, total);
    const own = command.owners.get(owner) ?? { waiting: 0, turn: 0 };
    const mayWait = command.waiting < queue * (own.waiting === 0 ? queueShare : 1);
    const { promise: entered, resolve } = Promise.withResolvers<void>();
    let isIn = false;
    const endWaiting = (): void => {
      command.waiting -= 1;
      own.waiting -= 1;
      if (own.waiting === 0) command.owners.delete(owner);
    };
    const start = (): void => {
      isIn = true;
      endWaiting();
      resolve();
    };
    own.turn = Math.max(command.turn, own.turn) + 1;
    own.waiting += 1;
    command.owners.set(owner, own);
    command.waiting += 1;
    const seats: Seat[] = [];
    const run: Run = {
      owner,
      turn: own.turn,
      number: this.#nextNumber(),
      seats,
      missing: perTarget === Infinity ? 0 : minions.length,
      state: 'waiting',
      total: undefined,
      onSeated: () => {
        command.turn = Math.max(command.turn, run.turn);
        run.total = command.slots.enter(owner, start);
      },
    };
    if (perTarget !== Infinity) {
      for (const minion of minions) {
        const line = this.#lineOf(`${name} ${minion}`, perTarget);
        seats.push({ run, line, previous: undefined, next: undefined });
      }
    }
    this.#join(run);
    const leave = (): void => {
      if (run.state === 'left') return;
      if (!isIn) endWaiting();
      this.#leave(run);
      if (command.waiting === 0 && command.slots.owners === 0) this.#commands.delete(name);
    };
    const isQueued = !isIn;
    if (isQueued && !mayWait) {
      leave();
      throw new BridgeError('ERR_COMMAND_BUSY', `${name}: too many active runs; retry later`);
    }
    return { entered, isQueued, leave };
  }

  #nextNumber(): number {
    this.#arrived += 1;
    return this.#arrived;
  }

  #commandOf(name: string, total: number): CommandRuns {
    const known = this.#commands.get(name);
    if (known !== undefined) return known;
    const slots = new FairSlots(bridgeLimits.commandRuns, { total, waiting: unlimitedWaiting });
    const command = { waiting: 0, owners: new Map(), turn: 0, slots };
    this.#commands.set(name, command);
    return command;
  }

  #lineOf(key: string, limit: number): Line {
    const known = this.#lines.get(key);
    if (known !== undefined) return known;
    const line = { key, limit, active: 0, waiting: new Map(), next: undefined };
    this.#lines.set(key, line);
    return line;
  }

  #join(run: Run): void {
    for (const seat of run.seats) {
      const { waiting } = seat.line;
      const own = waiting.get(run.owner) ?? new LinkedList<Seat>();
      waiting.set(run.owner, own);
      own.append(seat);
    }
    if (run.seats.length === 0) this.#seat(run);
    else this.#serve(run.seats.map(({ line }) => line));
  }

  #leave(run: Run): void {
    const wasSeated = run.state === 'seated';
    run.state = 'left';
    run.total?.leave();
    for (const seat of run.seats) {
      if (wasSeated) seat.line.active -= 1;
      else removeSeat(seat);
    }
    this.#serve(run.seats.map(({ line }) => line));
  }

  /**
   * Starts waiting runs after the queues in `lines` have changed. A run starts if the limits now
   * permit it.
   */
  #serve(lines: readonly Line[]): void {
    const changed = [...lines];
    for (let line = changed.pop(); line !== undefined; line = changed.pop()) {
      const run = this.#updateNext(line);
      if (run === undefined || run.missing > 0 || run.state !== 'waiting') continue;
      for (const seat of run.seats) {
        removeSeat(seat);
        seat.line.active += 1;
        changed.push(seat.line);
      }
      this.#seat(run);
    }
  }

  #seat(run: Run): void {
    run.state = 'seated';
    run.onSeated();
  }

  /**
   * Chooses the run that starts next on a minion.
   * @returns the chosen run if it was not chosen before. Otherwise, or if no run can start,
   * `undefined`
   */
  #updateNext(line: Line): Run | undefined {
    const next = line.active < line.limit ? firstSeat(line) : undefined;
    if (line.active === 0 && line.waiting.size === 0) this.#lines.delete(line.key);
    if (next === line.next) return undefined;
    if (line.next !== undefined) line.next.run.missing += 1;
    line.next = next;
    if (next === undefined) return undefined;
    next.run.missing -= 1;
    return next.run;
  }
}

/** Removes the entry of a waiting run from the queue of one minion. */
function removeSeat(seat: Seat): void {
  const { run, line } = seat;
  const own = line.waiting.get(run.owner);
  own?.remove(seat);
  if (own?.first === undefined) line.waiting.delete(run.owner);
  if (line.next !== seat) return;
  line.next = undefined;
  run.missing += 1;
}

/** Returns the queue entry of the run that starts next, or `undefined` if no run waits. */
function firstSeat({ waiting }: Line): Seat | undefined {
  let found: Seat | undefined;
  for (const { first } of waiting.values()) {
    if (first !== undefined && (found === undefined || isEarlier(first.run, found.run))) {
      found = first;
    }
  }
  return found;
}

/** Whether the run `one` starts before the run `other`. The order is the same on every minion. */
function isEarlier(one: Run, other: Run): boolean {
  return one.turn === other.turn ? one.number < other.number : one.turn < other.turn;
}
