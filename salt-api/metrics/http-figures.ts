/** What the HTTP API counts of itself. */
export interface HttpFigures {
  /** Answers by class of status, `2xx` and so on. */
  readonly answers: ReadonlyMap<string, number>;
  /** Event streams that are open. */
  readonly streams: number;
  readonly sessions: number;
  /** Connections that were ended or not taken in, by reason. */
  readonly refusals: Readonly<Record<string, number>>;
}

const classes = ['1xx', '2xx', '3xx', '4xx', '5xx'] as const;

/** Counts answers: five numbers, whatever is asked. */
export class AnswerCounts {
  readonly #counts = new Map<string, number>(classes.map((name) => [name, 0]));

  /** @param status HTTP's */
  count(status: number): void {
    const name = classes[Math.floor(status / 100) - 1];
    if (name !== undefined) this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
  }

  snapshot(): ReadonlyMap<string, number> {
    return new Map(this.#counts);
  }
}
