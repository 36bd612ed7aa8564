/** Reads request bodies other than JSON. The HTTP server passes them as chunks of bytes. */

import { BridgeError } from '#heat-bridge';

/** Returns the received chunks of a body. */
export function bytesOf(body: unknown): readonly Uint8Array[] {
  return Array.isArray(body) ? body.filter((part) => part instanceof Uint8Array) : [];
}

/**
 * Returns the body as text.
 * @throws BridgeError ERR_DATA_VALUE if it is not UTF-8
 */
export function textOf(body: unknown): string {
  try {
    const bytes = Buffer.concat(bytesOf(body));
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (cause) {
    throw new BridgeError('ERR_DATA_VALUE', 'the body must be text in UTF-8', { cause });
  }
}
