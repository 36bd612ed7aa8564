import { ByteAssembly } from './byte-assembly.ts';
import { TextAssembly } from './text-assembly.ts';

type ByteStream = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

/**
 * Reads a stream to its end.
 * @param tooLarge - returns the error that is thrown if the stream has more than `maxBytes` bytes
 */
export async function readStream(
  stream: ByteStream,
  maxBytes: number,
  tooLarge: () => Error,
): Promise<Buffer> {
  const whole = (await readBlocks(stream, maxBytes, tooLarge)).join();
  return Buffer.from(whole.buffer, whole.byteOffset, whole.byteLength);
}

/**
 * Reads a stream to its end, without joining its bytes. Joining tens of megabytes takes long.
 * @param tooLarge - returns the error that is thrown if the stream has more than `maxBytes` bytes
 */
export async function readBlocks(
  stream: ByteStream,
  maxBytes: number,
  tooLarge: () => Error,
): Promise<ByteAssembly> {
  const bytes = new ByteAssembly();
  for await (const part of limited(stream, maxBytes, tooLarge)) bytes.take(part);
  return bytes;
}

/**
 * Reads a stream of UTF-8 bytes to its end.
 * @param tooLarge - returns the error that is thrown if the stream has more than `maxBytes` bytes
 */
export async function readText(
  stream: ByteStream,
  maxBytes: number,
  tooLarge: () => Error,
): Promise<string> {
  const text = new TextAssembly();
  for await (const part of limited(stream, maxBytes, tooLarge)) text.take(part);
  return text.end();
}

async function* limited(
  stream: ByteStream,
  maxBytes: number,
  tooLarge: () => Error,
): AsyncGenerator<Uint8Array, void> {
  let bytes = 0;
  for await (const part of stream) {
    bytes += part.length;
    if (bytes > maxBytes) throw tooLarge();
    yield part;
  }
}
