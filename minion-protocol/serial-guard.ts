import { emptyWireMap, isWireMap, type WireValue } from './payload.ts';

/**
 * The minion's defence against publications that come again [WIRE 3.4]: a map with a `serial` that
 * is not greater than the last one counts as an empty map. One guard lives as long as one key.
 */
export class SerialGuard {
  #last = 0n;

  /** The value as the minion may use it: without `serial`, or empty when it came before. */
  admit(value: WireValue): WireValue {
    if (!isWireMap(value) || value.serial === undefined) return value;
    const { serial, ...rest } = value;
    const number = serialOf(serial);
    if (number === undefined || number <= this.#last) return emptyWireMap();
    this.#last = number;
    return Object.assign(emptyWireMap(), rest);
  }
}

function serialOf(value: WireValue): bigint | undefined {
  if (typeof value === 'bigint') return value;
  return typeof value === 'number' && Number.isInteger(value) ? BigInt(value) : undefined;
}
