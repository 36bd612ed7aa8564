import type { Master } from '#master';

/** Results of the jobs. */
export interface JobFigures {
  readonly begun: number;
  readonly finished: number;
  /** Number of returns. */
  readonly answers: number;
  /** Number of missing returns, by minion id. */
  readonly silent: Readonly<Record<string, number>>;
}

/** Number of minions of a job. Every `wholeFleetEvery`-th job is for all minions. */
const jobSize = 4;
const wholeFleetEvery = 500;
/** Interval at which due jobs are published, in milliseconds. */
const tickMs = 10;
/** If more jobs are running than begin in this time, in seconds, due jobs are left out. */
const secondsUnderWay = 20;
/** Timeouts in seconds. They are longer than an interruption by a key rotation. */
const patience = { timeoutSeconds: 10, gatherJobTimeoutSeconds: 5 };

/** Publishes jobs at a rate, and follows each job to its end. */
export class JobLoad {
  readonly #master: Master;
  readonly #ids: readonly string[];
  readonly #running = new Set<Promise<void>>();
  #ticker: NodeJS.Timeout | undefined;
  #begun = 0;
  #finished = 0;
  #answers = 0;
  readonly #silent: Record<string, number> = {};

  constructor(master: Master, ids: readonly string[]) {
    this.#master = master;
    this.#ids = ids;
  }

  start(perSecond: number, onError: (error: unknown) => void): void {
    const startedAt = performance.now();
    let due = 0;
    this.#ticker = setInterval(() => {
      const until = ((performance.now() - startedAt) / 1000) * perSecond;
      for (; due < until; due += 1) {
        if (this.#running.size < perSecond * secondsUnderWay) this.#begin(onError);
      }
    }, tickMs);
  }

  /** Stops publishing jobs, and waits for the running ones. */
  async stop(): Promise<void> {
    clearInterval(this.#ticker);
    await Promise.all(this.#running);
  }

  get figures(): JobFigures {
    return {
      begun: this.#begun,
      finished: this.#finished,
      answers: this.#answers,
      silent: this.#silent,
    };
  }

  #begin(onError: (error: unknown) => void): void {
    const job = this.#follow(this.#begun)
      .catch(onError)
      .finally(() => this.#running.delete(job));
    this.#running.add(job);
    this.#begun += 1;
  }

  async #follow(index: number): Promise<void> {
    const { jobs } = this.#master;
    const target =
      index % wholeFleetEvery === 0
        ? { tgt: '*' }
        : { tgt: this.#some(index), tgtType: 'list' as const };
    for await (const update of jobs.run({ ...target, ...patience, fun: 'test.ping' })) {
      if (update.type !== 'finished') continue;
      this.#finished += 1;
      this.#answers += update.answered.length;
      for (const id of update.silent) this.#silent[id] = (this.#silent[id] ?? 0) + 1;
    }
  }

  #some(index: number): string[] {
    return Array.from({ length: jobSize }, (_, place) => {
      return this.#ids[(index * jobSize + place) % this.#ids.length] ?? '';
    });
  }
}
