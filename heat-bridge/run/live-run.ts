/** A run that goes on, as those who follow it see it. */
import { once } from 'node:events';
import type { CommandHandle, CommandOutcome, CommandUpdate } from './request.ts';

/** What a run is begun with. */
export interface LiveRunOptions {
  readonly id: string;
  readonly command: string;
  readonly minions: readonly string[];
  /** Name of whoever it is of. */
  readonly owner: string;
}

/** Keeps what was told, so that whoever comes later has it too. */
export class LiveRun {
  readonly id: string;
  readonly command: string;
  readonly minions: readonly string[];
  readonly owner: string;
  readonly outcome: Promise<CommandOutcome>;
  readonly #cancel = new AbortController();
  readonly #told: CommandUpdate[] = [];
  #change = new AbortController();
  #isOver = false;
  #settle: { resolve(outcome: CommandOutcome): void; reject(error: unknown): void } = {
    resolve: () => {},
    reject: () => {},
  };

  constructor({ id, command, minions, owner }: LiveRunOptions) {
    this.id = id;
    this.command = command;
    this.minions = minions;
    this.owner = owner;
    this.outcome = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
    // Nobody need wait for it.
    this.outcome.catch(() => {});
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Fires when somebody wants it to end. */
  get cancelled(): AbortSignal {
    return this.#cancel.signal;
  }

  tell(update: CommandUpdate): void {
    this.#told.push(update);
    this.#wake();
  }

  /** The last thing that is told. */
  end(outcome: CommandOutcome): void {
    this.#isOver = true;
    this.tell({ type: 'outcome', outcome });
    this.#settle.resolve(outcome);
  }

  fail(error: unknown): void {
    this.#isOver = true;
    this.#settle.reject(error);
    this.#wake();
  }

  cancel(): void {
    this.#cancel.abort();
  }

  handle(isRepeated: boolean): CommandHandle {
    const { id, command, minions, outcome } = this;
    return {
      id,
      command,
      minions,
      isRepeated,
      outcome,
      updates: () => this.#updates(),
      cancel: async () => {
        this.cancel();
        await outcome;
      },
    };
  }

  async *#updates(): AsyncGenerator<CommandUpdate, void, void> {
    for (let next = 0; ; ) {
      const change = this.#change.signal;
      for (const update of this.#told.slice(next)) {
        next += 1;
        yield update;
      }
      if (next < this.#told.length) continue;
      if (this.#isOver) break;
      if (!change.aborted) await once(change, 'abort');
    }
    // Throws what the run failed of.
    await this.outcome;
  }

  #wake(): void {
    const change = this.#change;
    this.#change = new AbortController();
    change.abort();
  }
}

/** A run that was over before: its outcome is all that is told. */
export function endedRun(options: LiveRunOptions, outcome: CommandOutcome): LiveRun {
  const run = new LiveRun(options);
  run.end(outcome);
  return run;
}
