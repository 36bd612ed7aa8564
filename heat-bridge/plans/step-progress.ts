/** Emits updates about the progress of the steps of a run. */

import type { CommandResult } from '../commands/command-request.ts';
import type { StepKind, StepOutcome, StepProgress } from './plan-request.ts';
import type { PlanRun } from './plan-run.ts';

/** Receiver of the progress of one step. */
export interface StepReporter {
  note(result: CommandResult): void;
  end(outcome: StepOutcome): void;
}

/** Emits updates about all steps of one run. */
export class StepProgressEmitter {
  readonly #live: Pick<PlanRun, 'admit' | 'tell'>;
  readonly #all: number;
  #ended = 0;

  /**
   * Creates the emitter.
   * @param all - number of steps of the plan
   */
  constructor(live: Pick<PlanRun, 'admit' | 'tell'>, all: number) {
    this.#live = live;
    this.#all = all;
  }

  /**
   * Emits the start of a step.
   * @param all - number of minions of the step
   * @returns receiver of the further progress of the step
   */
  begin(about: { readonly step: string; readonly kind: StepKind }, all: number): StepReporter {
    const states = new Map<string, CommandResult['state']>();
    const report = (state: StepProgress['state'], reason?: string): void => {
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
    report('running');
    return {
      note: (result) => {
        states.set(result.minion, result.state);
        this.#live.tell({ type: 'result', ...about, result: this.#live.admit(result) });
      },
      end: ({ status, reason }) => {
        if (about.kind === 'do') this.#ended += 1;
        report(status, reason);
      },
    };
  }
}
