/**
 * Reads the first message of a TLS client, the ClientHello, before TLS processes it [RFC 8446
 * 4.1.2; RFC 5246 7.4.1.2].
 */

import { transportLimits } from './limits.ts';

/** Maximum size of a ClientHello with the headers of its records, in bytes. */
export const maxHelloBytes = 16_384;

/** Maximum number of records. All of them are read again whenever bytes arrive. */
const maxRecords = transportLimits.helloRecords.perOwner ?? Infinity;

const recordHeaderBytes = 5;
const messageHeaderBytes = 4;
const handshakeRecord = 22;
const clientHelloMessage = 1;
/** Bytes of the version and the random value, with which a ClientHello begins. */
const fixedBytes = 34;
const supportedVersions = 43;
const tls13 = 0x0304;

/** The received part of a ClientHello. */
export interface ReceivedHello {
  /** Whether all bytes of the ClientHello have arrived. */
  readonly isComplete: boolean;
  /** Whether a complete ClientHello offers TLS 1.3. */
  readonly offersTls13: boolean;
}

const incomplete: ReceivedHello = { isComplete: false, offersTls13: false };

/**
 * Reads the first bytes of a connection.
 * @returns `undefined` if they do not begin with a ClientHello
 */
export function readClientHello(bytes: Buffer): ReceivedHello | undefined {
  const parts: Buffer[] = [];
  let received = 0;
  for (let at = 0; at < bytes.length; ) {
    if (bytes[at] !== handshakeRecord || parts.length === maxRecords) return undefined;
    if (bytes.length < at + recordHeaderBytes) break;
    const length = bytes.readUInt16BE(at + 3);
    const part = bytes.subarray(at + recordHeaderBytes, at + recordHeaderBytes + length);
    parts.push(part);
    received += part.length;
    at += recordHeaderBytes + length;
  }
  const message = parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts);
  if (received > 0 && message[0] !== clientHelloMessage) return undefined;
  if (received < messageHeaderBytes) return incomplete;
  const end = messageHeaderBytes + message.readUIntBE(1, 3);
  if (received < end) return incomplete;
  const body = message.subarray(messageHeaderBytes, end);
  return { isComplete: true, offersTls13: versionsOf(body).includes(tls13) };
}

/** Returns the versions in the extension `supported_versions`; empty without the extension. */
function versionsOf(body: Buffer): readonly number[] {
  const extensions = new Fields(body.subarray(fixedBytes));
  extensions.read(1); // session id
  extensions.read(2); // cipher suites
  extensions.read(1); // compression methods
  const fields = new Fields(extensions.read(2));
  while (fields.hasMore) {
    const type = fields.number(2);
    const content = fields.read(2);
    if (type === supportedVersions) return pairsOf(new Fields(content).read(1));
  }
  return [];
}

function pairsOf(bytes: Buffer): readonly number[] {
  return Array.from({ length: bytes.length >> 1 }, (_, index) => bytes.readUInt16BE(index * 2));
}

/** Reads numbers and fields that begin with their length. Missing bytes are read as absent. */
class Fields {
  #rest: Buffer;

  constructor(bytes: Buffer) {
    this.#rest = bytes;
  }

  get hasMore(): boolean {
    return this.#rest.length > 0;
  }

  /** Reads a number of `size` bytes. Returns 0 if fewer bytes are left. */
  number(size: number): number {
    const value = this.#rest.length < size ? 0 : this.#rest.readUIntBE(0, size);
    this.#rest = this.#rest.subarray(size);
    return value;
  }

  /** Reads a field whose length is a number of `size` bytes. */
  read(size: number): Buffer {
    const length = this.number(size);
    const field = this.#rest.subarray(0, length);
    this.#rest = this.#rest.subarray(length);
    return field;
  }
}
