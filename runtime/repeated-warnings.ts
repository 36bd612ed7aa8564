/** Minimum interval between two log lines of the same kind, in milliseconds. */
const intervalMs = 60_000;

/** Logger method that this module uses. */
interface WarningLog {
  warn(about: object, message: string): void;
}

interface LoggedWarning {
  readonly at: number;
  /** Number of warnings of this kind that were suppressed since the last log line. */
  suppressed: number;
}

/**
 * Limits warnings that peers can trigger at any rate. Each kind is logged at most once a minute,
 * with the number of warnings since the last line.
 */
export class RepeatedWarnings {
  readonly #log: WarningLog;
  readonly #now: () => number;
  readonly #kinds = new Map<string, LoggedWarning>();

  constructor(log: WarningLog, now: () => number = Date.now) {
    this.#log = log;
    this.#now = now;
  }

  /**
   * Logs a warning.
   * @param kind - kind of the warning. Use a small fixed set, because each kind is stored
   */
  warn(kind: string, about: object, message: string): void {
    const now = this.#now();
    const logged = this.#kinds.get(kind);
    if (logged !== undefined && now - logged.at < intervalMs) {
      logged.suppressed += 1;
      return;
    }
    this.#kinds.set(kind, { at: now, suppressed: 0 });
    this.#log.warn({ ...about, times: 1 + (logged?.suppressed ?? 0) }, message);
  }
}
