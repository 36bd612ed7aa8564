import { Spread, Tally } from './instruments.ts';

/** Upper ends, seconds: of jobs, from the fastest answer to the longest that is waited for. */
const jobBounds = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800];
/** Upper ends, seconds: of a read from memory to a write on a slow disk. */
const storeBounds = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5];

/** What became of a request. */
export type RequestOutcome = 'answered' | 'refused' | 'failed' | 'unanswered';

/** Counts and durations of one master since its start. Always on: each is an addition. */
export class Meter {
  readonly authentications: Tally<'outcome'> = new Tally(['outcome']);
  readonly requests: Tally<'cmd' | 'outcome'> = new Tally(['cmd', 'outcome']);
  readonly firstReturn: Spread = new Spread(jobBounds);
  readonly lastReturn: Spread = new Spread(jobBounds);
  readonly storeReads: Spread = new Spread(storeBounds);
  readonly storeWrites: Spread = new Spread(storeBounds);
  #signalsDenied = 0;
  #returns = 0;

  /** Signals that no rule permitted. */
  get signalsDenied(): number {
    return this.#signalsDenied;
  }

  /** Returns that were kept, or told. */
  get returns(): number {
    return this.#returns;
  }

  /** @param cmd one of the table's, `_auth`, `ping`, `unknown`, or `unread` */
  countRequest(cmd: string, outcome: RequestOutcome): void {
    this.requests.add(cmd, outcome);
  }

  countDeniedSignal(): void {
    this.#signalsDenied += 1;
  }

  countReturn(): void {
    this.#returns += 1;
  }

  /** @param seconds since the job was published @param answered minions, this one among them */
  noteReturn(seconds: number, answered: number, minions: number): void {
    if (answered === 1) this.firstReturn.observe(seconds);
    if (answered === minions) this.lastReturn.observe(seconds);
  }
}
