/** Milliseconds between two lines of one kind. */
const intervalMs = 60_000;

/** What of a logger is used. */
interface WarningLog {
  warn(about: object, message: string): void;
}

interface Told {
  readonly at: number;
  /** Of this kind since then. */
  untold: number;
}

/**
 * Warnings of what others may cause as often as they like: of each kind there is a line a minute,
 * which says how many there were since the last one.
 */
export class RepeatedWarnings {
  readonly #log: WarningLog;
  readonly #now: () => number;
  readonly #kinds = new Map<string, Told>();

  constructor(log: WarningLog, now: () => number = Date.now) {
    this.#log = log;
    this.#now = now;
  }

  /** @param kind - one of a few: each is remembered */
  warn(kind: string, about: object, message: string): void {
    const now = this.#now();
    const told = this.#kinds.get(kind);
    if (told !== undefined && now - told.at < intervalMs) {
      told.untold += 1;
      return;
    }
    this.#kinds.set(kind, { at: now, untold: 0 });
    this.#log.warn({ ...about, times: 1 + (told?.untold ?? 0) }, message);
  }
}
