/**
 * Signals in Heat's form, parsed from event data within limits. A guest cannot choose the signal's
 * id.
 */

import { isWireMap, type WireValue } from '#minion-protocol';
import { writeJson } from '#runtime';

/** Value that JSON can represent. */
type Json =
  | null
  | boolean
  | number
  | bigint
  | string
  | readonly Json[]
  | { readonly [name: string]: Json };

/** Signal without its id, which the bridge sets. */
export interface Signal {
  /** Status. Heat accepts these two values only, in upper case [heat WaitConditionHandle]. */
  readonly status: 'SUCCESS' | 'FAILURE';
  /** Reason. Heat shows the reason of a FAILURE as the stack's status reason. */
  readonly reason?: string;
  /** Value of the condition's attribute `data` under the signal's id. */
  readonly data?: Json;
}

/** Reasons why data is not a signal. */
export type SignalProblem =
  | 'bytes'
  | 'data-no-json'
  | 'empty'
  | 'field-unknown'
  | 'not-a-map'
  | 'reason-no-text'
  | 'status-unknown'
  | 'unreadable';

/** Signal, or the reason why data is not one. */
export type ParsedSignal =
  | { readonly ok: true; readonly signal: Signal }
  | { readonly ok: false; readonly complaint: SignalProblem };

/** Maximum length of a reason. A longer one is truncated, so that the signal itself is not lost. */
const maxReasonLength = 2_048;

/** Signal of an event without data, if the handle accepts such events. */
export const emptySuccess: Signal = { status: 'SUCCESS' };

/**
 * Returns the FAILURE that replaces an unreadable event. The minion gets no error for such an
 * event, so Heat gets the failure.
 */
export function unreadableSignal(tag: string, reason: string): Signal {
  const text = `event ${tag} could not be read: ${reason}`;
  return { status: 'FAILURE', reason: truncateReason(text) };
}

/**
 * Parses `status`, `reason` and `data`, at least one of which is required. Other fields are
 * rejected, because Heat would silently drop the whole signal. `id` is rejected too, because one
 * guest could use it to count twice.
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
  const json = tryToJson(data);
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
 * Returns the id under which Heat counts the signal: the minion's id and, if the handle has
 * members, the member's name. Ids are unique, because a minion's id contains no slash.
 */
export function signalId(minion: string, member: string | undefined): string {
  return member === undefined ? minion : `${minion}/${member}`;
}

function truncateReason(reason: string): string {
  if (reason.length <= maxReasonLength) return reason;
  return `${[...reason].slice(0, maxReasonLength - 1).join('')}…`;
}

/**
 * Converts a value to JSON. Returns `undefined` for bytes and dates, which JSON cannot represent
 * for Heat.
 */
function tryToJson(value: WireValue): Json | undefined {
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return value;
  if (typeof value === 'bigint') return value;
  if (typeof value === 'number') return Number.isFinite(value) ? value : undefined;
  if (Array.isArray(value)) {
    const items = value.map(tryToJson);
    return items.every((item) => item !== undefined) ? items : undefined;
  }
  if (!isWireMap(value)) return undefined;
  const entries: [string, Json][] = [];
  for (const [name, content] of Object.entries(value)) {
    const item = tryToJson(content);
    if (item === undefined) return undefined;
    entries.push([name, item]);
  }
  return Object.fromEntries(entries);
}
