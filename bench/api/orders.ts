/** What the process of clients is told to do, and what it found. */

/** Clients that each send one request after the other over a connection of their own. */
export interface RequestOrder {
  readonly do: 'requests';
  readonly host: string;
  readonly port: number;
  /** Of a session. */
  readonly token: string;
  readonly tgt: string;
  readonly clients: number;
  readonly seconds: number;
}

/** Readers of `/events` that read for so long. */
export interface ReadOrder {
  readonly do: 'read';
  readonly host: string;
  readonly port: number;
  /** Of a session. */
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
  /** Events that the first reader got. */
  readonly events: number;
  /** Bytes that the reader got who got least, and who got most. */
  readonly leastBytes: number;
  readonly mostBytes: number;
  /** Readers whose stream was there to the end. */
  readonly open: number;
}
