/**
 * Messages between the benchmark and the process with its clients.
 */

/** Order: clients send requests, each client one after the other over its own connection. */
export interface RequestOrder {
  readonly do: 'requests';
  readonly host: string;
  readonly port: number;
  /** Token of the session that the clients use. */
  readonly token: string;
  readonly tgt: string;
  readonly clients: number;
  readonly seconds: number;
}

/** Order: clients read `/events` for some time. */
export interface ReadOrder {
  readonly do: 'read';
  readonly host: string;
  readonly port: number;
  /** Token of the session that the readers use. */
  readonly token: string;
  readonly readers: number;
  readonly seconds: number;
}

export type ApiOrder = RequestOrder | ReadOrder;

export interface RequestOutcome {
  readonly answered: number;
  readonly failed: number;
  readonly medianMs: number;
  readonly p99Ms: number;
  readonly longestMs: number;
}

export interface ReadOutcome {
  /** Number of events that the first reader received. */
  readonly events: number;
  /** Number of bytes that the slowest reader received. */
  readonly leastBytes: number;
  /** Number of bytes that the fastest reader received. */
  readonly mostBytes: number;
  /** Number of readers whose stream was open until the end. */
  readonly open: number;
}
