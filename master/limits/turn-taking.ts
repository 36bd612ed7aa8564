/** Lets work on the same thing wait for the work before it; work on others goes on meanwhile. */
export class TurnTaking {
  readonly #last = new Map<string, Promise<unknown>>();

  /** Runs `work` when everything that came before it under this name is over. */
  async run<T>(name: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(name) ?? Promise.resolve();
    const turn = before.then(work, work);
    this.#last.set(name, turn);
    try {
      return await turn;
    } finally {
      if (this.#last.get(name) === turn) this.#last.delete(name);
    }
  }
}
