/** A run that goes on, as those who follow it see it. */
import type { CommandHandle, CommandOutcome, CommandUpdate } from './request.ts';
import { ToldUpdates } from './told-updates.ts';

/** What a run is begun with. */
export interface LiveRunOptions {
  readonly id: string;
  readonly command: string;
  readonly minions: readonly string[];
  /** Name of whoever it is of. */
  readonly owner: string;
}

/** A run of a command. */
export class LiveRun {
  readonly id: string;
  readonly command: string;
  readonly minions: readonly string[];
  readonly owner: string;
  readonly #cancel = new AbortController();
  readonly #told = new ToldUpdates<CommandUpdate, CommandOutcome>();
  #isInterrupted = false;

  constructor({ id, command, minions, owner }: LiveRunOptions) {
    this.id = id;
    this.command = command;
    this.minions = minions;
    this.owner = owner;
  }

  get isOver(): boolean {
    return this.#told.isOver;
  }

  /** Whether more may have come since its outcome was told. */
  get isInterrupted(): boolean {
    return this.#isInterrupted;
  }

  /** Fires when somebody wants it to end. */
  get cancelled(): AbortSignal {
    return this.#cancel.signal;
  }

  tell(update: CommandUpdate): void {
    this.#told.tell(update);
  }

  /** The last thing that is told. */
  end(outcome: CommandOutcome): void {
    this.#isInterrupted = outcome.status === 'interrupted';
    this.#told.end({ type: 'outcome', outcome }, outcome);
  }

  fail(error: unknown): void {
    this.#told.fail(error);
  }

  cancel(): void {
    this.#cancel.abort();
  }

  handle(isRepeated: boolean): CommandHandle {
    const { id, command, minions } = this;
    const { outcome } = this.#told;
    return {
      id,
      command,
      minions,
      isRepeated,
      outcome,
      updates: () => this.#told.updates(),
      cancel: async () => {
        this.cancel();
        await outcome;
      },
    };
  }
}

/** A run that was over before: its outcome is all that is told. */
export function endedRun(options: LiveRunOptions, outcome: CommandOutcome): LiveRun {
  const run = new LiveRun(options);
  run.end(outcome);
  return run;
}
