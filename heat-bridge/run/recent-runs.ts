/** Runs that go on, and the latest that are over, with all that they told. */
import { BridgeError } from '../errors.ts';
import type { KnownCaller } from './callers.ts';

/** A run, of a command or a plan. */
interface Run {
  readonly id: string;
  /** Name of whoever it is of. */
  readonly owner: string;
  readonly isOver: boolean;
}

/** Runs that are over, and are remembered. */
const maxEnded = 100;

/** By id. */
export class RecentRuns<R extends Run> {
  readonly #runs = new Map<string, R>();

  add(run: R): R {
    this.#runs.set(run.id, run);
    const over = [...this.#runs.values()].filter(({ isOver }) => isOver);
    for (const { id } of over.slice(0, Math.max(0, over.length - maxEnded))) this.#runs.delete(id);
    return run;
  }

  get(id: string): R | undefined {
    return this.#runs.get(id);
  }

  /** @throws BridgeError ERR_RUN_UNKNOWN, also where it is somebody else's */
  of(id: string, caller: KnownCaller): R {
    const run = this.#runs.get(id);
    if (run !== undefined && (caller.subject === undefined || run.owner === caller.name)) {
      return run;
    }
    throw new BridgeError('ERR_RUN_UNKNOWN', 'no run of this id is kept for this caller');
  }
}
