/**
 * Events on Salt's event bus [WIRE 14.1; salt/utils/event.py]. An encoded event is the tag, two
 * line feeds and the data. The data is packed with {@link packLocal}.
 */
import { ProtocolError } from './errors.ts';
import { packLocal, unpackLocal } from './payload.ts';
import type { PayloadLimits } from './payload-limits.ts';
import type { WireValue } from './wire-value.ts';

const separator = '\n\n';

/** An event on Salt's event bus. */
export interface BusEvent {
  readonly tag: string;
  /** Data of the event, almost always a map. */
  readonly data: WireValue;
}

/**
 * Packs an event.
 * @throws ProtocolError ERR_BAD_EVENT if the tag is empty, contains two consecutive line feeds or
 * ends with a line feed
 */
export function packEvent(tag: string, data: WireValue): Buffer {
  // If a tag ended with a line feed, the separator would be found one byte too early.
  if (tag === '' || tag.includes(separator) || tag.endsWith('\n')) {
    throw new ProtocolError(
      'ERR_BAD_EVENT',
      `cannot encode an event: its tag (${tag.length} characters) is empty or contains the separator`,
    );
  }
  return Buffer.concat([Buffer.from(tag + separator, 'utf8'), packLocal(data)]);
}

/**
 * Unpacks an event.
 * @throws ProtocolError ERR_BAD_EVENT, ERR_BAD_PAYLOAD, ERR_PAYLOAD_LIMIT
 */
export function unpackEvent(bytes: Uint8Array, limits?: PayloadLimits): BusEvent {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const end = buffer.indexOf(separator);
  if (end < 1)
    throw new ProtocolError(
      'ERR_BAD_EVENT',
      `cannot decode an event (${bytes.length} bytes): it has no tag`,
    );
  return {
    tag: buffer.toString('utf8', 0, end),
    data: unpackLocal(buffer.subarray(end + separator.length), limits),
  };
}

/** Returns the `_stamp` of an event: UTC in ISO 8601, with microseconds and without a time zone. */
export function formatEventStamp(now: Date): string {
  return now.toISOString().replace('Z', '000');
}
