/**
 * Events on the bus [WIRE 14.1; salt/utils/event.py]:
 *
 *     tag ‖ 0A 0A ‖ data, packed in the local dialect
 */
import { ProtocolError } from './errors.ts';
import { type PayloadLimits, packLocal, unpackLocal, type WireValue } from './payload.ts';

const separator = '\n\n';

/** An event. */
export interface BusEvent {
  readonly tag: string;
  /** Almost always a map. */
  readonly data: WireValue;
}

/** @throws ProtocolError ERR_BAD_EVENT when the tag is empty or would end early */
export function packEvent(tag: string, data: WireValue): Buffer {
  // A line feed at the end would take one of the separator's.
  if (tag === '' || tag.includes(separator) || tag.endsWith('\n')) {
    throw new ProtocolError('ERR_BAD_EVENT', `unusable tag of ${tag.length} characters`);
  }
  return Buffer.concat([Buffer.from(tag + separator, 'utf8'), packLocal(data)]);
}

/** @throws ProtocolError ERR_BAD_EVENT, ERR_BAD_PAYLOAD, ERR_PAYLOAD_LIMIT */
export function unpackEvent(bytes: Uint8Array, limits?: PayloadLimits): BusEvent {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const end = buffer.indexOf(separator);
  if (end < 1) throw new ProtocolError('ERR_BAD_EVENT', `${bytes.length} bytes without a tag`);
  return {
    tag: buffer.toString('utf8', 0, end),
    data: unpackLocal(buffer.subarray(end + separator.length), limits),
  };
}

/** The `_stamp` of an event: UTC, ISO 8601 with microseconds and without a zone. */
export function formatEventStamp(now: Date): string {
  return now.toISOString().replace('Z', '000');
}
