import { MasterError } from '../api/index.ts';

/**
 * Counts the calls that begin something while their callers wait, and lets none begin while the
 * master is drained.
 */
export class CallGate {
  #active = 0;
  #isClosed = false;
  readonly #waiting = new Set<() => void>();

  /** Whether no call may begin. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Calls that have begun and not ended. */
  get active(): number {
    return this.#active;
  }

  /**
   * A call begins.
   * @returns to be called once, when it has ended
   * @throws MasterError ERR_MASTER_DRAINING
   */
  enter(): () => void {
    if (this.#isClosed) throw draining();
    this.#active += 1;
    return () => {
      this.#active -= 1;
      if (this.#active > 0) return;
      for (const resolve of this.#waiting) resolve();
      this.#waiting.clear();
    };
  }

  close(): void {
    this.#isClosed = true;
  }

  open(): void {
    this.#isClosed = false;
  }

  /** Resolves when no call is under way. */
  async idle(): Promise<void> {
    if (this.#active === 0) return;
    await new Promise<void>((resolve) => this.#waiting.add(resolve));
  }
}

function draining(): MasterError {
  const message = 'this member of the cluster is being drained, and takes nothing new';
  return new MasterError('ERR_MASTER_DRAINING', message);
}
