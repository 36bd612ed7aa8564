import Type from 'typebox';
import type { StateArea } from '#master';
import { defineRow } from '#store';

const floorRow = defineRow({
  name: 'time of the centre',
  schema: Type.Object({
    ms: Type.Integer({ minimum: 0 }),
    correctedAt: Type.Optional(Type.Integer({ minimum: 0 })),
  }),
});
const key = ['centre-time'];

/** Minimum difference between two stored times, in milliseconds. It limits the number of writes. */
const stepMs = 60_000;

/** Maximum difference of two clocks that count as equal, in milliseconds: an hour. */
const toleranceMs = 3_600_000;

/**
 * Latest time that the centre has signed. A site stores it, so that it is known after a restart.
 *
 * If the clock of the centre was ahead, the stored time is too late. The site then replaces it by
 * an earlier time if two clocks show that it is too late: the centre has signed the earlier time in
 * the handshake of a new connection, and the clock of the site shows the same time. Neither a wrong
 * clock of the site nor a wrong clock of the centre alone can set the stored time back.
 */
export class CentreTime {
  readonly #state: StateArea;
  readonly #now: () => number;
  #floor: number;
  #stored: number;
  #correctedAt: number;

  private constructor(state: StateArea, now: () => number, floor: number, correctedAt: number) {
    this.#state = state;
    this.#now = now;
    this.#floor = floor;
    this.#stored = floor;
    this.#correctedAt = correctedAt;
  }

  /** @param now - clock of the site, in milliseconds since 1970 */
  static async open(state: StateArea, now: () => number): Promise<CentreTime> {
    const entry = await state.get(key);
    const { ms, correctedAt = 0 } = entry === undefined ? { ms: 0 } : floorRow.decode(entry);
    return new CentreTime(state, now, ms, correctedAt);
  }

  /**
   * Latest time that the centre has signed, in milliseconds since 1970. 0 before the first contact.
   */
  get floor(): number {
    return this.#floor;
  }

  /**
   * Time of the centre at which the site last replaced {@link floor} by an earlier time, in
   * milliseconds since 1970. 0 if it never has.
   */
  get correctedAt(): number {
    return this.#correctedAt;
  }

  /**
   * Records a time that the centre has signed in the handshake of a new connection. An earlier time
   * than {@link floor} has an effect only if `floor` is wrong, see {@link CentreTime}.
   * @returns whether the time has replaced a wrong one
   */
  async note(ms: number): Promise<boolean> {
    if (this.#isCorrection(ms)) {
      await this.#store({ ms, correctedAt: ms });
      this.#floor = ms;
      this.#correctedAt = ms;
      return true;
    }
    this.#floor = Math.max(this.#floor, ms);
    if (this.#floor >= this.#stored + stepMs) {
      await this.#store({ ms: this.#floor, correctedAt: this.#correctedAt });
    }
    return false;
  }

  #isCorrection(ms: number): boolean {
    return ms < this.#floor - toleranceMs && Math.abs(this.#now() - ms) <= toleranceMs;
  }

  async #store(row: { readonly ms: number; readonly correctedAt: number }): Promise<void> {
    await this.#state.write([{ op: 'put', key, value: floorRow.encode(row) }]);
    this.#stored = row.ms;
  }
}
