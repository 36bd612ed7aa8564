/** A run of a command as its followers see it. */

import type { AddressedMinions } from '#master';
import type {
  CommandHandle,
  CommandOutcome,
  CommandResult,
  CommandUpdate,
} from './command-request.ts';
import { TrackedRun } from './tracked-run.ts';

/** The part of a target that a command is not sent to. */
export type LeftOut = Pick<AddressedMinions, 'isNarrowed' | 'missing'>;

const nothing: LeftOut = { missing: [], isNarrowed: false };

/** Results of the names that a target lists and that are not addressed. */
export function unaddressedResults({ missing, isNarrowed }: LeftOut): readonly CommandResult[] {
  const reason = isNarrowed
    ? 'it has no accepted key, or the caller has no right to it'
    : 'it has no accepted key';
  return missing.map((minion) => ({ minion, state: 'unaddressed', reason }));
}

/** What a run is begun with. */
export interface CommandRunOptions {
  readonly id: string;
  readonly command: string;
  readonly minions: readonly string[];
  /** Default: nothing. */
  readonly leftOut?: LeftOut | undefined;
  /** Name of whoever it is of. */
  readonly owner: string;
}

/** A run of a command. */
export class CommandRun extends TrackedRun<CommandUpdate, CommandOutcome> {
  readonly command: string;
  readonly minions: readonly string[];
  readonly leftOut: LeftOut;

  constructor({ id, command, minions, owner, leftOut = nothing }: CommandRunOptions) {
    super(id, owner);
    this.command = command;
    this.minions = minions;
    this.leftOut = leftOut;
  }

  /** Returns the outcome with these results, and those of the names that are not addressed. */
  outcomeOf(
    results: readonly CommandResult[],
    { status, jids }: Pick<CommandOutcome, 'jids' | 'status'>,
  ): CommandOutcome {
    const { id, command, leftOut } = this;
    const all = [...results, ...unaddressedResults(leftOut)];
    const narrowed = leftOut.isNarrowed ? ({ isNarrowed: true } as const) : {};
    return { id, command, status, results: all, jids, ...narrowed };
  }

  handle(isRepeated: boolean): CommandHandle {
    const { id, command, minions, outcome } = this;
    return {
      id,
      command,
      minions,
      missing: this.leftOut.missing,
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
