/** Updates about the steps of a run. */

import type { CommandResult } from '../commands/command-request.ts';
import type { StepKind, StepOutcome, StepProgress } from './plan-request.ts';
import type { PlanRun } from './plan-run.ts';

/** What is told of one step. */
export interface StepReporter {
  note(result: CommandResult): void;
  end(outcome: StepOutcome): void;
}

/** Tells all steps of one run. */
export class StepProgressEmitter {
  readonly #live: Pick<PlanRun, 'tell'>;
  readonly #all: number;
  #ended = 0;

  /** @param all - how many steps there are */
  constructor(live: Pick<PlanRun, 'tell'>, all: number) {
    this.#live = live;
    this.#all = all;
  }

  /** @param all - how many minions it is for */
  begin(about: { readonly step: string; readonly kind: StepKind }, all: number): StepReporter {
    const states = new Map<string, CommandResult['state']>();
    const tell = (state: StepProgress['state'], reason?: string): void => {
      const succeeded = [...states.values()].filter((it) => it === 'succeeded').length;
      this.#live.tell({
        type: 'step',
        ...about,
        state,
        minions: { all, ended: states.size, succeeded },
        steps: { all: this.#all, ended: this.#ended },
        ...(reason === undefined ? {} : { reason }),
      });
    };
    tell('running');
    return {
      note: (result) => {
        states.set(result.minion, result.state);
        this.#live.tell({ type: 'result', ...about, result });
      },
      end: ({ status, reason }) => {
        if (about.kind === 'do') this.#ended += 1;
        tell(status, reason);
      },
    };
  }
}
