/** A run that goes on, as those who follow it see it. */
import { FollowedRun } from './followed-run.ts';
import type { CommandHandle, CommandOutcome, CommandUpdate } from './request.ts';

/** What a run is begun with. */
export interface LiveRunOptions {
  readonly id: string;
  readonly command: string;
  readonly minions: readonly string[];
  /** Name of whoever it is of. */
  readonly owner: string;
}

/** A run of a command. */
export class LiveRun extends FollowedRun<CommandUpdate, CommandOutcome> {
  readonly command: string;
  readonly minions: readonly string[];

  constructor({ id, command, minions, owner }: LiveRunOptions) {
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

/** A run that was over before: its outcome is all that is told. */
export function endedRun(options: LiveRunOptions, outcome: CommandOutcome): LiveRun {
  const run = new LiveRun(options);
  run.end(outcome);
  return run;
}
