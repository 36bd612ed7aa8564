/** A run of a command, with its updates. */

import type { AddressedMinions } from '#master';
import type {
  CommandHandle,
  CommandOutcome,
  CommandResult,
  CommandUpdate,
} from './command-request.ts';
import { TrackedRun, withoutReturn } from './tracked-run.ts';

/**
 * Ids that a target names but to which the command is not sent, and whether minions were left out
 * because the caller has no rights on them.
 */
export type LeftOut = Pick<AddressedMinions, 'isNarrowed' | 'missing'>;

const nothing: LeftOut = { missing: [], isNarrowed: false };

/**
 * Returns a result for each name in the target's list to which the command is not sent. These
 * results have the state `unaddressed`.
 */
export function unaddressedResults({ missing, isNarrowed }: LeftOut): readonly CommandResult[] {
  const reason = isNarrowed
    ? 'no minion with this id has an accepted key, or no rule permits the caller to address it'
    : 'no minion with this id has an accepted key';
  return missing.map((minion) => ({ minion, state: 'unaddressed', reason }));
}

/** Returns an outcome without the returns of minions. */
export function outcomeWithoutReturns(outcome: CommandOutcome): CommandOutcome {
  return { ...outcome, results: outcome.results.map(withoutReturn) };
}

/** Options of a new run. */
export interface CommandRunOptions {
  readonly id: string;
  readonly command: string;
  readonly minions: readonly string[];
  /** Names in the target that do not receive the command. Default: none. */
  readonly leftOut?: LeftOut | undefined;
  /** Minions whose keys have ended since the target was resolved. The set grows. Default: none. */
  readonly lost?: ReadonlySet<string> | undefined;
  /** Name of the caller. */
  readonly owner: string;
}

/** Run of a command in this process. */
export class CommandRun extends TrackedRun<CommandUpdate, CommandOutcome> {
  readonly command: string;
  readonly minions: readonly string[];
  readonly leftOut: LeftOut;
  /**
   * Minions whose keys have ended during the run. They receive no further jobs of the run, because
   * another machine may have the id now.
   */
  readonly lost: ReadonlySet<string>;

  constructor(options: CommandRunOptions) {
    const { id, command, minions, owner, leftOut = nothing, lost = new Set() } = options;
    super(id, owner);
    this.command = command;
    this.minions = minions;
    this.leftOut = leftOut;
    this.lost = lost;
  }

  /**
   * Returns an outcome with the given results of minions. The method adds a result for each name in
   * the target to which the command was not sent.
   */
  outcomeOf(
    results: readonly CommandResult[],
    { status, jids }: Pick<CommandOutcome, 'jids' | 'status'>,
  ): CommandOutcome {
    const { id, command, leftOut } = this;
    const all = [...results, ...unaddressedResults(leftOut)];
    const narrowed = leftOut.isNarrowed ? ({ isNarrowed: true } as const) : {};
    return { id, command, status, results: all, jids, ...narrowed };
  }

  protected override shortenUpdate(update: CommandUpdate): CommandUpdate {
    switch (update.type) {
      case 'result':
        return { ...update, result: withoutReturn(update.result) };
      case 'outcome':
        return { ...update, outcome: outcomeWithoutReturns(update.outcome) };
      default:
        return update;
    }
  }

  protected override shortenOutcome(outcome: CommandOutcome): CommandOutcome {
    return outcomeWithoutReturns(outcome);
  }

  handle(isRepeated: boolean): CommandHandle {
    const { id, command, minions } = this;
    const outcome = () => this.outcome;
    return {
      id,
      command,
      minions,
      missing: this.leftOut.missing,
      isRepeated,
      // A handle must not keep the returns that the run drops.
      get outcome() {
        return outcome();
      },
      updates: () => this.updates(),
      cancel: async () => {
        this.cancel();
        await outcome();
      },
    };
  }
}
