import { emptyWireMap, isWireMap, type WireValue } from './wire-value.ts';

/**
 * Protects the minion against replayed publications [WIRE 3.4]. Use one guard for each publish key.
 */
export class SerialGuard {
  #last = 0n;

  /**
   * Returns a publication without its `serial`. If the publication is a replay, returns an empty
   * map. It is a replay if its `serial` is not an integer, or not higher than all serials received
   * before.
   */
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
