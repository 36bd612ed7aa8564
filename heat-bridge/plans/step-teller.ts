/** Tells of steps as they go on, with counts. */
import type { CommandResult } from '../run/request.ts';
import type { LivePlan } from './live-plan.ts';
import type { StepKind, StepOutcome, StepProgress } from './request.ts';

/** What is told of one step. */
export interface StepNews {
  note(result: CommandResult): void;
  end(outcome: StepOutcome): void;
}

/** Tells all steps of one run. */
export class StepTeller {
  readonly #live: Pick<LivePlan, 'tell'>;
  readonly #all: number;
  #ended = 0;

  /** @param all - how many steps there are */
  constructor(live: Pick<LivePlan, 'tell'>, all: number) {
    this.#live = live;
    this.#all = all;
  }

  /** @param all - how many minions it is for */
  begin(about: { readonly step: string; readonly kind: StepKind }, all: number): StepNews {
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
