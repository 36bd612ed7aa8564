/** A run of a command as its followers see it. */

import type { CommandHandle, CommandOutcome, CommandUpdate } from './command-request.ts';
import { TrackedRun } from './tracked-run.ts';

/** What a run is begun with. */
export interface CommandRunOptions {
  readonly id: string;
  readonly command: string;
  readonly minions: readonly string[];
  /** Name of whoever it is of. */
  readonly owner: string;
}

/** A run of a command. */
export class CommandRun extends TrackedRun<CommandUpdate, CommandOutcome> {
  readonly command: string;
  readonly minions: readonly string[];

  constructor({ id, command, minions, owner }: CommandRunOptions) {
    super(id, owner);
    this.command = command;
    this.minions = minions;
  }

  handle(isRepeated: boolean): CommandHandle {
    const { id, command, minions, outcome } = this;
    return {
      id,
      command,
      minions,
      isRepeated,
      outcome,
      updates: () => this.updates(),
      cancel: async () => {
        this.cancel();
        await outcome;
      },
    };
  }
}
