/** Converts pillar data to and from the wire format. */

import { type FactMap, isWireMap, pythonStr, type WireMap, type WireValue } from '#minion-protocol';
import { Float, type PlainData } from '#template';
import { isList, isPillarMap, type PillarMap } from './pillar-data.ts';
import { type Slices, type Steps, stepsPerValue } from './slices.ts';

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
  if (!entries.every(([key]) => isName(key))) return new Map(entries);
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

/** Converts a wire value like {@link fromWire}. Yields when the slice is over. */
export function* fromWireInSteps(value: WireValue, slices: Slices): Steps<PlainData> {
  if (Array.isArray(value)) {
    const list: PlainData[] = [];
    for (const item of value) {
      slices.addToSlice(stepsPerValue);
      if (slices.isSliceOver) yield;
      list.push(isContainer(item) ? yield* fromWireInSteps(item, slices) : fromWire(item));
    }
    return list;
  }
  if (!isContainer(value)) return fromWire(value);
  const map = new Map<PlainData, PlainData>();
  for (const [key, item] of value instanceof Map ? value : Object.entries(value)) {
    slices.addToSlice(stepsPerValue);
    if (slices.isSliceOver) yield;
    const inner = isContainer(item) ? yield* fromWireInSteps(item, slices) : fromWire(item);
    map.set(fromWire(key), inner);
  }
  return map;
}

function isContainer(value: WireValue): value is WireMap | Map<WireValue, WireValue> | WireValue[] {
  return Array.isArray(value) || value instanceof Map || isWireMap(value);
}

/** Converts a map like {@link toWirePillar}. Yields when the slice is over. */
export function* toWirePillarInSteps(pillar: PillarMap, slices: Slices): Steps<FactMap> {
  const map = new Map<WireValue, WireValue>();
  let hasNames = true;
  for (const [key, value] of pillar) {
    hasNames &&= isName(key);
    map.set(toWire(key), yield* toWireInSteps(value, slices));
  }
  if (!hasNames) return map;
  const named: WireMap = Object.create(null);
  for (const [name, value] of map) {
    slices.addToSlice(stepsPerValue);
    if (slices.isSliceOver) yield;
    named[String(name)] = value;
  }
  return named;
}

function* toWireInSteps(data: PlainData, slices: Slices): Steps<WireValue> {
  slices.addToSlice(stepsPerValue);
  if (slices.isSliceOver) yield;
  if (isPillarMap(data)) return yield* toWirePillarInSteps(data, slices);
  if (!isList(data)) return toWire(data);
  const list: WireValue[] = [];
  for (const item of data) list.push(yield* toWireInSteps(item, slices));
  return list;
}

/** Whether a key of a map can be the key of an object without a change of the order of the keys. */
function isName(key: PlainData | WireValue): key is string {
  return typeof key === 'string' && !/^\d+$/.test(key);
}
