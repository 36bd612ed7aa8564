/**
 * Writes updates and outcomes of runs as lines of JSON. A value whose type JSON lacks is written as
 * a map whose only key names the type, for example `$bytes`. Long lines are written in steps.
 */

import { markedForm } from '#master';
import { StepScheduler, writeJsonInSteps } from '#runtime';

/** Writes updates and outcomes of runs as lines of JSON, and caches the lines. */
export class MarkedLines {
  readonly #scheduler = new StepScheduler();
  /**
   * Written lines, by update or outcome. All readers of a run share them. The references are weak,
   * so that the cache does not keep lines in memory after their readers have ended.
   */
  readonly #written = new WeakMap<object, WeakRef<Buffer>>();
  /** Lines that are being written. */
  readonly #writing = new WeakMap<object, Promise<Buffer>>();

  /** Returns the JSON of an update or outcome, without a line feed. */
  async jsonOf(item: object): Promise<Buffer> {
    return (await this.lineOf(item)).subarray(0, -1);
  }

  /** Returns the JSON of an update or outcome, with a line feed. */
  async lineOf(item: object): Promise<Buffer> {
    const known = this.#written.get(item)?.deref();
    if (known !== undefined) return known;
    const writing = this.#writing.get(item) ?? this.#write(item);
    this.#writing.set(item, writing);
    try {
      const line = await writing;
      this.#written.set(item, new WeakRef(line));
      return line;
    } finally {
      this.#writing.delete(item);
    }
  }

  async #write(item: object): Promise<Buffer> {
    const pieces: Buffer[] = [];
    await this.#scheduler.run(
      writeJsonInSteps(item, markedForm, (piece) => {
        pieces.push(Buffer.from(piece));
      }),
    );
    return Buffer.concat([...pieces, Buffer.from('\n')]);
  }
}
