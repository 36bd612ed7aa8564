import { MasterError } from '../api/index.ts';

/**
 * Counts the calls that are in progress, and rejects new calls while the master prepares for a
 * restart (`drain`).
 */
export class CallGate {
  #active = 0;
  #isClosed = false;
  readonly #waiting = new Set<() => void>();

  /** Whether new calls are rejected. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Number of calls in progress. */
  get active(): number {
    return this.#active;
  }

  /**
   * Registers the start of a call.
   * @returns a function that the caller must call once when the call has ended
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

  /** Resolves when no call is in progress. */
  async idle(): Promise<void> {
    if (this.#active === 0) return;
    await new Promise<void>((resolve) => this.#waiting.add(resolve));
  }
}

function draining(): MasterError {
  const message =
    'this member of the cluster is draining and accepts no new calls; call another member';
  return new MasterError('ERR_MASTER_DRAINING', message);
}
