/**
 * Reads a stream to its end.
 * @param tooLarge - returns the error that is thrown if the stream has more than `maxBytes` bytes
 */
export async function readStream(
  stream: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  maxBytes: number,
  tooLarge: () => Error,
): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of stream) {
    bytes += part.length;
    if (bytes > maxBytes) throw tooLarge();
    parts.push(part);
  }
  return Buffer.concat(parts);
}
