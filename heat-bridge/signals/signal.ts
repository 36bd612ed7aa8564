/** A signal as Heat takes it: parsed from the data of an event, within limits. A guest does not choose its id. */

import { isWireMap, type WireValue } from '#minion-protocol';
import { writeJson } from '#runtime';

/** A value that JSON can carry. */
type Json =
  | null
  | boolean
  | number
  | bigint
  | string
  | readonly Json[]
  | { readonly [name: string]: Json };

/** A signal without its id, which the bridge makes. */
export interface Signal {
  /** Heat knows no other word, and takes none in small letters [heat WaitConditionHandle]. */
  readonly status: 'SUCCESS' | 'FAILURE';
  /** Why; of a FAILURE Heat shows it as the reason of the stack. */
  readonly reason?: string;
  /** What the condition's attribute `data` holds under the id. */
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

/** A signal, or the reason why data is not one. */
export type ParsedSignal =
  | { readonly ok: true; readonly signal: Signal }
  | { readonly ok: false; readonly complaint: SignalProblem };

/** A longer reason is cut: that something failed must not be lost over how it was told. */
const maxReasonLength = 2_048;

/** The signal of an event without data, where the handle accepts such events. */
export const emptySuccess: Signal = { status: 'SUCCESS' };

/**
 * The signal in place of an event that cannot be read. The minion gets no error for such an event, so
 * Heat gets a failure.
 */
export function unreadableSignal(tag: string, reason: string): Signal {
  const text = `the event ${tag} was not understood: ${reason}`;
  return { status: 'FAILURE', reason: truncateReason(text) };
}

/**
 * Reads `status`, `reason` and `data`, one of which is needed. Any other field is refused, as Heat
 * would drop the whole signal without a word for it; so is `id`, by which one guest could count twice.
 * @param maxBytes - of the signal as JSON
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
 * The id under which Heat counts: that of the minion, and of the member where the handle has some.
 * No id of a minion holds a slash, so no two can be the same.
 */
export function signalId(minion: string, member: string | undefined): string {
  return member === undefined ? minion : `${minion}/${member}`;
}

function truncateReason(reason: string): string {
  if (reason.length <= maxReasonLength) return reason;
  return `${[...reason].slice(0, maxReasonLength - 1).join('')}…`;
}

/** Bytes and dates have no form in JSON that Heat would read as what they are. */
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
