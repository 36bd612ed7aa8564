/** What goes on, of a command or a plan, as those who follow it see it. */
import { ToldUpdates } from './told-updates.ts';

/** What is told last. */
interface LastUpdate<O> {
  readonly type: 'outcome';
  readonly outcome: O;
}

/** A run, and what it told. */
export class FollowedRun<U, O extends { readonly status: string }> {
  readonly id: string;
  /** Name of whoever it is of. */
  readonly owner: string;
  readonly #cancel = new AbortController();
  readonly #told = new ToldUpdates<U | LastUpdate<O>, O>();
  #isInterrupted = false;

  constructor(id: string, owner: string) {
    this.id = id;
    this.owner = owner;
  }

  /** Whether it can be gone on with: more may have come since its outcome was told. */
  get isInterrupted(): boolean {
    return this.#isInterrupted;
  }

  /** Fires when somebody wants it to end. */
  get cancelled(): AbortSignal {
    return this.#cancel.signal;
  }

  /** Nobody need wait for it. */
  get outcome(): Promise<O> {
    return this.#told.outcome;
  }

  /** All that is told, from the beginning. */
  updates(): AsyncGenerator<U | LastUpdate<O>, void, void> {
    return this.#told.updates();
  }

  tell(update: U): void {
    this.#told.tell(update);
  }

  /** The last thing that is told. */
  end(outcome: O): void {
    this.#isInterrupted = outcome.status === 'interrupted';
    this.#told.end({ type: 'outcome', outcome }, outcome);
  }

  fail(error: unknown): void {
    this.#told.fail(error);
  }

  cancel(): void {
    this.#cancel.abort();
  }
}
