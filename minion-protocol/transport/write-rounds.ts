/** Whoever has something to be written to a socket. */
export interface Writer {
  write(): void;
}

/** Writers of one round: what a round leaves behind is gone before it is held for long. */
const writersPerRound = 256;

/**
 * When the sockets of a listener are written to: at the end of the turn of the event loop in which
 * something was queued, so that all of it goes out in one write. A publication to a large fleet
 * takes several turns, and who is served meanwhile waits for one of them, not for the fleet.
 */
export class WriteRounds {
  #waiting: Writer[] = [];
  #next = 0;

  /** @param writer is not waiting already */
  add(writer: Writer): void {
    this.#waiting.push(writer);
    if (this.#waiting.length === 1) process.nextTick(() => this.#round());
  }

  #round(): void {
    const end = Math.min(this.#next + writersPerRound, this.#waiting.length);
    while (this.#next < end) {
      const writer = this.#waiting[this.#next];
      this.#next += 1;
      writer?.write();
    }
    if (this.#next < this.#waiting.length) {
      setImmediate(() => this.#round());
    } else {
      this.#waiting = [];
      this.#next = 0;
    }
  }
}
