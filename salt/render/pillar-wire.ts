/** Converts pillar data to and from the wire format. */

import { type FactMap, pythonStr, type WireMap, type WireValue } from '#minion-protocol';
import { Float, type PlainData } from '#template';
import { isPillarMap, type PillarMap } from './pillar-data.ts';

/** Converts data to a wire value. A float without a fraction stays a {@link Float}. */
export function toWire(data: PlainData): WireValue {
  if (typeof data !== 'object' || data === null) return data;
  if (data instanceof Float) return Number.isSafeInteger(data.value) ? data : data.value;
  if (data instanceof Uint8Array) return data;
  return isPillarMap(data) ? toWirePillar(data) : listOf(data).map(toWire);
}

/** Formats a value like Python's `str`. */
export function textOf(data: PlainData): string {
  return pythonStr(toWire(data));
}

/**
 * Converts a map to an object. The result is a `Map` if some keys are not text, or if an object
 * would change the order of the keys.
 */
export function toWirePillar(pillar: PillarMap): FactMap {
  const entries = Array.from(pillar, ([key, value]): [WireValue, WireValue] => {
    return [toWire(key), toWire(value)];
  });
  if (!entries.every(([key]) => typeof key === 'string' && !/^\d+$/.test(key))) {
    return new Map(entries);
  }
  const map: WireMap = Object.create(null);
  for (const [key, value] of entries) map[String(key)] = value;
  return map;
}

function listOf(data: PlainData): readonly PlainData[] {
  return Array.isArray(data) ? data : [];
}

/** Converts a wire value to pillar data. */
export function fromWire(value: WireValue): PlainData {
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Uint8Array || value instanceof Float) return value;
  if (Array.isArray(value)) return value.map(fromWire);
  if (value instanceof Map) {
    return new Map(Array.from(value, ([key, inner]) => [fromWire(key), fromWire(inner)]));
  }
  return new Map(Object.entries(value).map(([key, inner]) => [key, fromWire(inner)]));
}
