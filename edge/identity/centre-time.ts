import Type from 'typebox';
import type { StateArea } from '#master';
import { defineRow } from '#store';

const floorRow = defineRow({
  name: 'time of the centre',
  schema: Type.Object({ ms: Type.Integer({ minimum: 0 }) }),
});
const key = ['centre-time'];

/** Minimum difference between two stored times, in milliseconds. It limits the number of writes. */
const stepMs = 60_000;

/**
 * Latest time that the centre has signed. A site stores it, so that it is known after a restart.
 */
export class CentreTime {
  readonly #state: StateArea;
  #floor: number;
  #stored: number;

  private constructor(state: StateArea, floor: number) {
    this.#state = state;
    this.#floor = floor;
    this.#stored = floor;
  }

  static async open(state: StateArea): Promise<CentreTime> {
    const entry = await state.get(key);
    return new CentreTime(state, entry === undefined ? 0 : floorRow.decode(entry).ms);
  }

  /**
   * Latest time that the centre has signed, in milliseconds since 1970. 0 before the first contact.
   */
  get floor(): number {
    return this.#floor;
  }

  /** Records a time that the centre has signed. A time before {@link floor} has no effect. */
  async raise(ms: number): Promise<void> {
    this.#floor = Math.max(this.#floor, ms);
    if (this.#floor < this.#stored + stepMs) return;
    const stored = this.#floor;
    await this.#state.write([{ op: 'put', key, value: floorRow.encode({ ms: stored }) }]);
    this.#stored = stored;
  }
}
