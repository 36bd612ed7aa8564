/**
 * Finds the credentials in a packed request without unpacking the rest. Any account on the host can
 * send a large request, so the master identifies the caller before it unpacks the request.
 */

import { isDeepStrictEqual } from 'node:util';
import {
  clearLimits,
  emptyWireMap,
  endOfValue,
  isWireMap,
  loadLimits,
  ProtocolError,
  unpackWire,
  type WireMap,
  type WireValue,
} from '#minion-protocol';

const loginNames = ['token', 'eauth', 'username', 'password'];
const callerNames = ['cmd', 'key', 'user', ...loginNames];
const requestLimits = { ...loadLimits, maxDepth: loadLimits.maxDepth + 1 };

/**
 * Maximum size of a field name that can belong to the credentials, in bytes, packed. Longer names
 * are skipped.
 */
const maxNameBytes = 64;

/**
 * Returns the command and the credentials of a packed request. Returns `undefined` if they cannot
 * be read exactly, for example because a name occurs twice.
 */
export function packedCredentials(request: Uint8Array): WireMap | undefined {
  // Bounds the work of all later scans.
  if (endOfValue(request, 0, requestLimits) !== request.length) return undefined;
  try {
    const load = packedFields(request, ['load']).get('load');
    if (load === undefined) return undefined;
    const fields = packedFields(load, [...callerNames, 'kwargs']);
    const kwargs = fields.get('kwargs');
    fields.delete('kwargs');
    const shown = unpackedFields(fields);
    if (shown.cmd !== 'publish' || kwargs === undefined) return shown;
    return { ...shown, kwargs: unpackedFields(packedFields(kwargs, loginNames)) };
  } catch (error) {
    if (error instanceof ProtocolError) return undefined;
    throw error;
  }
}

/**
 * Whether an unpacked request contains exactly the credentials that {@link packedCredentials} found
 * before the request was unpacked.
 */
export function hasCredentials(load: WireMap, shown: WireMap): boolean {
  return isDeepStrictEqual(credentialValues(load), credentialValues(shown));
}

/** Returns the map that contains the log-in of a request, if it has one. */
export function loginIn(load: WireMap): WireMap {
  if (load.cmd !== 'publish') return load;
  return isWireMap(load.kwargs) ? load.kwargs : {};
}

function credentialValues(load: WireMap): (WireValue | undefined)[] {
  const login = loginIn(load);
  return [...callerNames.map((name) => load[name]), ...loginNames.map((name) => login[name])];
}

/**
 * Returns the named fields of a packed map, in packed form.
 * @throws ProtocolError ERR_BAD_PAYLOAD, ERR_PAYLOAD_LIMIT if the bytes are not a map of at most
 * 2,000 entries, a name is not text, or one of `names` occurs twice
 */
function packedFields(packed: Uint8Array, names: readonly string[]): Map<string, Uint8Array> {
  const { size, entries } = mapHeadOf(packed);
  if (entries > clearLimits.maxElements)
    throw new ProtocolError('ERR_PAYLOAD_LIMIT', 'a map of the request has too many entries');
  const fields = new Map<string, Uint8Array>();
  let start = size;
  for (let entry = 0; entry < entries; entry += 1) {
    const nameEnd = endOf(packed, start);
    const end = endOf(packed, nameEnd);
    const name = nameOf(packed.subarray(start, nameEnd));
    if (fields.has(name)) throw unreadable();
    if (names.includes(name)) fields.set(name, packed.subarray(nameEnd, end));
    start = end;
  }
  return fields;
}

function unpackedFields(fields: ReadonlyMap<string, Uint8Array>): WireMap {
  const map = emptyWireMap();
  for (const [name, value] of fields) map[name] = unpackWire(value, clearLimits);
  return map;
}

function endOf(packed: Uint8Array, start: number): number {
  const end = endOfValue(packed, start, requestLimits);
  if (end === undefined) throw unreadable();
  return end;
}

/**
 * Unpacks a name. Returns an empty text if the name is too long to equal one of the names with
 * which it is compared.
 */
function nameOf(packed: Uint8Array): string {
  const head = packed[0] ?? 0;
  const isText = (head >= 0xa0 && head < 0xc0) || (head >= 0xd9 && head <= 0xdb);
  const isBytes = head >= 0xc4 && head <= 0xc6;
  if (!isText && !isBytes) throw unreadable();
  if (packed.length > maxNameBytes) return '';
  const name = unpackWire(packed, clearLimits);
  if (typeof name !== 'string') throw unreadable();
  return name;
}

function mapHeadOf(packed: Uint8Array): { readonly size: number; readonly entries: number } {
  const view = new DataView(packed.buffer, packed.byteOffset, packed.byteLength);
  const head = packed[0] ?? 0;
  if (head >= 0x80 && head < 0x90) return { size: 1, entries: head & 0x0f };
  if (head === 0xde) return { size: 3, entries: view.getUint16(1) };
  if (head === 0xdf) return { size: 5, entries: view.getUint32(1) };
  throw unreadable();
}

function unreadable(): ProtocolError {
  return new ProtocolError('ERR_BAD_PAYLOAD', 'the credentials of the request cannot be read');
}
