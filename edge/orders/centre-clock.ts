/**
 * Time of the centre, as a site estimates it. The estimate decides how long orders remain valid
 * without the centre.
 */

import Type from 'typebox';
import type { ExtensionHost } from '#master';
import { defineRow } from '#store';
import type { SiteLink } from '../link/link.ts';

const clockRow = defineRow({
  name: 'last contact with the centre',
  schema: Type.Object({
    /** Time of the last contact, by the clock of the centre, in milliseconds since 1970. */
    at: Type.Number(),
    /** Clock of the centre minus clock of the site, in milliseconds. */
    differenceMs: Type.Number(),
  }),
});
const key = ['order-clock'];

/** Objects and functions of a site from which {@link CentreClock} estimates the time. */
export interface CentreClockContext {
  readonly host: Pick<ExtensionHost, 'now' | 'state'>;
  readonly link: Pick<SiteLink, 'state'>;
  /**
   * Returns how long a site may be without its centre before the centre's orders become invalid, in
   * seconds.
   */
  readonly validOfflineSeconds: () => number;
  /** Returns the latest time that the centre has signed, in milliseconds since 1970. */
  readonly timeFloor: () => number;
}

/** Minimum interval between two writes of the last contact, in milliseconds. */
const writeIntervalMs = 60_000;

/**
 * Clock of the centre, as a site estimates it from its own clock and the difference at the last
 * contact. The estimate is never earlier than the latest time that the centre has signed, see
 * `CentreTime`.
 */
export class CentreClock {
  readonly #context: CentreClockContext;
  #at: number | undefined;
  #differenceMs = 0;
  #writtenAt = 0;

  private constructor(context: CentreClockContext) {
    this.#context = context;
  }

  static async open(context: CentreClockContext): Promise<CentreClock> {
    const clock = new CentreClock(context);
    const entry = await context.host.state.get(key);
    if (entry !== undefined) {
      const { at, differenceMs } = clockRow.decode(entry);
      clock.#at = at;
      clock.#differenceMs = differenceMs;
      clock.#writtenAt = at;
    }
    return clock;
  }

  /** Estimated current time of the centre, in milliseconds since 1970. */
  get now(): number {
    this.#refresh();
    return Math.max(this.#context.host.now() + this.#differenceMs, this.#context.timeFloor());
  }

  /**
   * Time since the last contact with the centre, in milliseconds. `undefined` if this site has
   * never connected to its centre.
   */
  get awayMs(): number | undefined {
    this.#refresh();
    if (this.#context.link.state.isConnected) return 0;
    if (this.#at === undefined) return undefined;
    // Both times are by the clock of the centre of the last contact. The greatest signed time may be
    // by the clock of a former centre, which was ahead.
    return Math.max(0, this.#context.host.now() + this.#differenceMs - this.#at);
  }

  /**
   * Whether orders of the centre and approved plans are valid. They become invalid if the centre is
   * unreachable for longer than `valid_offline`.
   */
  get isValid(): boolean {
    const away = this.awayMs;
    return away !== undefined && away < this.#context.validOfflineSeconds() * 1000;
  }

  /** Time without the centre after which its orders are invalid, in seconds. */
  get validOfflineSeconds(): number {
    return this.#context.validOfflineSeconds();
  }

  /**
   * Stores the time of the last contact with the centre. A restart while the centre is unreachable
   * therefore does not extend the validity of orders. Does nothing if this time differs from the
   * stored time by less than a minute.
   */
  async save(): Promise<void> {
    this.#refresh();
    // The clock of another centre may be behind that of the former one.
    if (this.#at === undefined || Math.abs(this.#at - this.#writtenAt) < writeIntervalMs) return;
    this.#writtenAt = this.#at;
    const value = clockRow.encode({ at: this.#at, differenceMs: this.#differenceMs });
    await this.#context.host.state.write([{ op: 'put', key, value }]);
  }

  #refresh(): void {
    const { lastContactAt, clockDifferenceMs } = this.#context.link.state;
    if (lastContactAt === undefined || clockDifferenceMs === undefined) return;
    this.#differenceMs = clockDifferenceMs;
    this.#at = lastContactAt + clockDifferenceMs;
  }
}
