/**
 * Signals in Heat's form, parsed from the data of events within limits. A minion cannot choose the
 * id of its signal.
 */

import { isWireMap, type WireValue } from '#minion-protocol';
import { writeJson } from '#runtime';
import { Float } from '#template/python/values.ts';
import type { ParameterValue } from '../commands/parameters.ts';

/**
 * Signal to Heat. Heat stores each signal under an id. The bridge determines this id, so a signal
 * does not contain it.
 */
export interface Signal {
  /** Status. Heat accepts only these two values, in upper case [heat WaitConditionHandle]. */
  readonly status: 'SUCCESS' | 'FAILURE';
  /**
   * Reason for the status. If the status is FAILURE, Heat shows this text as the status reason of
   * the stack.
   */
  readonly reason?: string;
  /**
   * Data. Heat adds it to the attribute `data` of the wait condition, under the id of the signal.
   */
  readonly data?: ParameterValue;
}

/** Reason why data cannot be parsed as a signal. */
export type SignalProblem =
  | 'bytes'
  | 'data-no-json'
  | 'empty'
  | 'field-unknown'
  | 'not-a-map'
  | 'reason-no-text'
  | 'status-unknown'
  | 'unreadable';

/** Parsed signal, or the reason why the data cannot be parsed. */
export type ParsedSignal =
  | { readonly ok: true; readonly signal: Signal }
  | { readonly ok: false; readonly complaint: SignalProblem };

/**
 * Maximum length of a reason, in characters. A longer reason is truncated; the signal is still
 * accepted.
 */
const maxReasonLength = 2_048;

/** Signal for an event without data, if the handle treats such events as a success. */
export const emptySuccess: Signal = { status: 'SUCCESS' };

/**
 * Returns the signal with status FAILURE that the bridge sends to Heat if an event is not a valid
 * signal. The minion receives no error for its event.
 */
export function unreadableSignal(tag: string, reason: string): Signal {
  const text = `the event ${tag} is not a valid signal: ${reason}`;
  return { status: 'FAILURE', reason: truncateReason(text) };
}

/**
 * Parses `status`, `reason` and `data`. At least one of them must be present. Other fields are
 * rejected, because Heat would drop the whole signal without an error. `id` is rejected, because a
 * minion could use it to signal for several machines.
 * @param maxBytes - maximum size of the signal, in bytes of JSON
 */
export function parseSignal(said: WireValue | undefined, maxBytes: number): ParsedSignal {
  if (said === undefined || said === null) return { ok: false, complaint: 'empty' };
  if (!isWireMap(said)) return { ok: false, complaint: 'not-a-map' };
  if (Object.keys(said).length === 0) return { ok: false, complaint: 'empty' };
  const { status = 'SUCCESS', reason = null, data = null, ...others } = said;
  if (Object.keys(others).length > 0) return { ok: false, complaint: 'field-unknown' };
  if (status !== 'SUCCESS' && status !== 'FAILURE') {
    return { ok: false, complaint: 'status-unknown' };
  }
  if (reason !== null && typeof reason !== 'string') {
    return { ok: false, complaint: 'reason-no-text' };
  }
  const conversion = new JsonConversion(maxBytes);
  const json = conversion.convert(data);
  if (conversion.isTooLarge) return { ok: false, complaint: 'bytes' };
  if (json === undefined) return { ok: false, complaint: 'data-no-json' };
  const signal: Signal = {
    status,
    ...(reason === null ? {} : { reason: truncateReason(reason) }),
    ...(json === null ? {} : { data: json }),
  };
  const bytes = Buffer.byteLength(writeJson(signal));
  return bytes > maxBytes ? { ok: false, complaint: 'bytes' } : { ok: true, signal };
}

/**
 * Returns the id under which Heat stores the signal. It is the id of the minion, or
 * `<minion>/<member>` if the event tag names a member (`heat/<alias>/<member>`). The id is unique,
 * because ids of minions contain no slash.
 */
export function signalId(minion: string, member: string | undefined): string {
  return member === undefined ? minion : `${minion}/${member}`;
}

function truncateReason(reason: string): string {
  if (reason.length <= maxReasonLength) return reason;
  // A character has one or two code units.
  const start = reason.slice(0, 2 * maxReasonLength);
  return `${[...start].slice(0, maxReasonLength - 1).join('')}…`;
}

/**
 * Conversion of a value to JSON with a maximum size. It adds up the minimum sizes of the parts, and
 * stops when the sum exceeds the maximum. A value that is too large is therefore not converted
 * completely.
 */
class JsonConversion {
  #left: number;

  /** @param maxBytes - maximum size of the JSON text, in bytes */
  constructor(maxBytes: number) {
    this.#left = maxBytes;
  }

  /** Whether the JSON text is certainly too large. */
  get isTooLarge(): boolean {
    return this.#left < 0;
  }

  /**
   * Converts a value. Returns `undefined` for values that JSON cannot represent, such as bytes and
   * dates, and for values that are too large.
   */
  convert(value: WireValue): ParameterValue | undefined {
    this.#left -= leastBytes(value);
    if (this.isTooLarge) return undefined;
    if (value === null || typeof value === 'boolean' || typeof value === 'string') return value;
    if (typeof value === 'bigint') return value;
    if (value instanceof Float) return Number.isFinite(value.value) ? value : undefined;
    if (typeof value === 'number') return Number.isFinite(value) ? value : undefined;
    if (Array.isArray(value)) return this.#list(value);
    if (!isWireMap(value)) return undefined;
    const entries: [string, ParameterValue][] = [];
    for (const [name, content] of Object.entries(value)) {
      this.#left -= name.length + '"":'.length;
      const item = this.convert(content);
      if (item === undefined) return undefined;
      entries.push([name, item]);
    }
    return Object.fromEntries(entries);
  }

  #list(values: readonly WireValue[]): ParameterValue | undefined {
    const items: ParameterValue[] = [];
    for (const value of values) {
      const item = this.convert(value);
      if (item === undefined) return undefined;
      items.push(item);
    }
    return items;
  }
}

/**
 * Returns the minimum size of a value in JSON, in bytes. For a list, counts the brackets and commas
 * but not the elements. For a map, counts only the braces.
 */
function leastBytes(value: WireValue): number {
  if (typeof value === 'string') return value.length + '""'.length;
  if (typeof value !== 'object' || value === null || value instanceof Float) return 1;
  const members = Array.isArray(value) ? value.length : 0;
  return '[]'.length + Math.max(0, members - 1);
}
