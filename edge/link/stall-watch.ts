/**
 * Detects that a connection does not transfer anything, although the site waits for the centre. The
 * operating system would notice it only after minutes.
 */

/**
 * Duration without a received byte after which the site sends a heartbeat, in milliseconds. Applies
 * while a request is unanswered.
 */
const quietMs = 4000;

/**
 * Duration without a received byte after which the site sends a heartbeat, in milliseconds. Applies
 * while no request is unanswered.
 */
const heartbeatMs = 60_000;

/**
 * Minimum time to wait for the answer to a heartbeat before the heartbeat counts as lost, in
 * milliseconds.
 */
const patienceMs = 8000;

/**
 * Time after which an unanswered heartbeat counts as lost, in round-trip times of the connection.
 * `patienceMs` applies instead if it is longer.
 */
const patientRoundTrips = 4;

/** Assumed minimum rate of a link, in bytes per millisecond. */
const leastRate = 3;

/** Counters of a connection. */
export interface LinkTraffic {
  readonly bytesRead: number;
  readonly bytesWritten: number;
}

/**
 * Decides when a site sends a heartbeat to its centre, and when it closes the connection because no
 * data arrives.
 */
export class StallWatch {
  readonly #patienceMs: number;
  #read = -1;
  #quietSince = 0;
  #ping: { readonly at: number; readonly written: number } | undefined;

  /** @param roundTripMs - duration of a round trip on this connection */
  constructor(roundTripMs: number) {
    this.#patienceMs = Math.max(patienceMs, patientRoundTrips * roundTripMs);
  }

  /**
   * Returns whether the site must send a heartbeat (`ping`) or end the connection (`end`) now, or
   * `undefined`. Call this method each second.
   * @param now - time in milliseconds since an arbitrary start
   * @param isWaiting - whether requests are unanswered
   */
  check(
    now: number,
    { bytesRead, bytesWritten }: LinkTraffic,
    isWaiting: boolean,
  ): 'ping' | 'end' | undefined {
    if (bytesRead !== this.#read) {
      this.#read = bytesRead;
      this.#quietSince = now;
      this.#ping = undefined;
    }
    if (this.#ping !== undefined) {
      // Frames that were written before the heartbeat arrive before it.
      const queueMs = (bytesWritten - this.#ping.written) / leastRate;
      return now - this.#ping.at > this.#patienceMs + queueMs ? 'end' : undefined;
    }
    if (now - this.#quietSince < (isWaiting ? quietMs : heartbeatMs)) return undefined;
    this.#ping = { at: now, written: bytesWritten };
    return 'ping';
  }
}
