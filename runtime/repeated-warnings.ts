/** Minimum interval between two log lines of one kind, in milliseconds. */
const intervalMs = 60_000;

/** Part of a logger that is used. */
interface WarningLog {
  warn(about: object, message: string): void;
}

interface Told {
  readonly at: number;
  /** Number of suppressed warnings of this kind since then. */
  untold: number;
}

/**
 * Limits warnings that peers can cause as often as they like. Each kind is logged once a minute,
 * with the number of warnings since the last line.
 */
export class RepeatedWarnings {
  readonly #log: WarningLog;
  readonly #now: () => number;
  readonly #kinds = new Map<string, Told>();

  constructor(log: WarningLog, now: () => number = Date.now) {
    this.#log = log;
    this.#now = now;
  }

  /**
   * Logs a warning.
   * @param kind - one of a few kinds, because each is stored
   */
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
