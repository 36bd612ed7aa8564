/** Reads streams of bytes in parts of any size. */

import test from 'ava';
import fc from 'fast-check';
import { ByteAssembly, readBlocks, readStream, readText } from '#runtime';

const tooLarge = (): Error => new Error('too large');

/** Yields bytes in parts of the given sizes, again and again. */
function* inParts(bytes: Uint8Array, sizes: readonly number[]): Generator<Uint8Array, void> {
  for (let at = 0, index = 0; at < bytes.length; index += 1) {
    const size = sizes[index % sizes.length] ?? 1;
    yield bytes.subarray(at, at + size);
    at += size;
  }
}

const sizes = fc.array(fc.constantFrom(1, 2, 3, 5, 1_000, 16_383, 16_384, 70_000), {
  minLength: 1,
  maxLength: 4,
});

test('a text is the same in parts of any size', async (t) => {
  const texts = fc.string({ unit: 'grapheme-composite', minLength: 1, maxLength: 40 });
  const property = fc.asyncProperty(texts, fc.nat(3_000), sizes, async (text, times, parts) => {
    const whole = text.repeat(times);
    const bytes = Buffer.from(whole);
    return (await readText(inParts(bytes, parts), bytes.length, tooLarge)) === bytes.toString();
  });
  await fc.assert(property, { numRuns: 60 });
  t.pass();
});

test('bytes are the same in parts of any size, joined or not', async (t) => {
  const property = fc.asyncProperty(fc.nat(200_000), sizes, async (length, parts) => {
    const bytes = Buffer.alloc(length, 'abcdefghijklmnopqrstuvwxyz');
    const blocks = await readBlocks(inParts(bytes, parts), length, tooLarge);
    const joined = await readStream(inParts(bytes, parts), length, tooLarge);
    return (
      blocks.length === length &&
      bytes.equals(Buffer.concat([...blocks.blocks()])) &&
      bytes.equals(joined)
    );
  });
  await fc.assert(property, { numRuns: 60 });
  t.pass();
});

test('a stream may have the maximum number of bytes, and not one more', async (t) => {
  const bytes = Buffer.alloc(100, 'a');
  for (const read of [readStream, readText, readBlocks]) {
    t.is((await read(inParts(bytes, [7]), 100, tooLarge)).length, 100);
    await t.throwsAsync(read(inParts(bytes, [7]), 99, tooLarge), { message: 'too large' });
  }
});

test('an empty assembly has no blocks', (t) => {
  const empty = new ByteAssembly();
  t.deepEqual([empty.length, [...empty.blocks()], empty.join().length], [0, [], 0]);
});
