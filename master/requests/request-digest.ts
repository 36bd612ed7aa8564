import { createHash, hash } from 'node:crypto';
import { packWire } from '#minion-protocol';
import type { VerifiedRequest } from '../auth/index.ts';

const noBytes = Buffer.alloc(0);

/**
 * Memory in which a short load is copied without its time stamp. A digest of one buffer takes less
 * time than an object for a digest of parts.
 */
const shortBuffer = Buffer.allocUnsafeSlow(4096);

function digestOfShort(parts: readonly Buffer[]): Buffer {
  let end = 0;
  for (const part of parts) {
    shortBuffer.set(part, end);
    end += part.length;
  }
  return Buffer.from(hash('sha256', shortBuffer.subarray(0, end), 'binary'), 'latin1');
}

function digestOfLong(parts: readonly Buffer[]): Buffer {
  const digest = createHash('sha256');
  for (const part of parts) digest.update(part);
  return digest.digest();
}

/** Time stamp of the latest request, and its field. Most requests of a second have the same. */
let latest = { ts: Number.NaN, field: noBytes };

/** Returns the field `ts` of a load in MessagePack. */
function packedTime(ts: number): Buffer {
  if (latest.ts !== ts) {
    latest = { ts, field: Buffer.concat([packWire('ts'), packWire(ts)]) };
  }
  return latest.field;
}

/**
 * Returns the mark that identifies a request among the requests of its minion. If the request has a
 * nonce, the mark is a digest of the packed load, which contains the nonce. The digest does not
 * cover `ts`, because a client may repeat a request with a new time stamp [WIRE 4.4]. If the
 * request has no nonce, two different requests may have the same content, and a digest could not
 * distinguish them. The mark is then the message authentication code, so only requests with
 * identical bytes have the same mark.
 */
export function markOf({ nonce, ts, packed, mac }: VerifiedRequest): Buffer {
  if (nonce === undefined) return mac;
  const load = Buffer.from(packed.buffer, packed.byteOffset, packed.length);
  const field = ts === undefined ? noBytes : packedTime(ts);
  // Salt adds the time stamp near the end of the load.
  const at = load.lastIndexOf(field);
  const parts = at === -1 ? [load] : [load.subarray(0, at), load.subarray(at + field.length)];
  return load.length > shortBuffer.length ? digestOfLong(parts) : digestOfShort(parts);
}

/**
 * Returns a text that identifies a request among the requests of its minion. It is stored with the
 * effect of the request.
 */
export function requestDigest(request: VerifiedRequest): string {
  return markOf(request).toString('base64');
}
