/** Limits of encoded rows, checked before a row is decoded. */

/** Maximum nesting of maps and lists. */
const maxDepth = 64;
/** Maximum number of list elements and map entries in a row. */
const maxElements = 250_000;

/**
 * Checks the MessagePack of a row against the limits, without decoding its values.
 * @throws RangeError if it exceeds the limits, is truncated, or contains an extension type
 */
export function checkRowBody(bytes: Uint8Array): void {
  const end = bytes.length;
  /**
   * Number of elements that still have to be read in the innermost open list or map. `around`
   * contains one such number for each enclosing list or map.
   */
  let missing = 1;
  const around: number[] = [];
  let elements = 0;
  let offset = 0;
  while (offset < end) {
    const head = bytes[offset] ?? 0;
    missing -= 1;
    offset += 1;
    let entries = 0;
    if (head < 0x80 || head >= 0xe0) {
      // The head of a small integer contains its value, so no further bytes follow.
    } else if (head < 0x90) entries = 2 * (head & 0x0f);
    else if (head < 0xa0) entries = head & 0x0f;
    else if (head < 0xc0) offset += head & 0x1f;
    else if (head >= 0xdc) {
      const size = head % 2 === 0 ? 2 : 4;
      entries = uint(bytes, offset, size) * (head >= 0xde ? 2 : 1);
      offset += size;
    } else if ((head >= 0xc4 && head <= 0xc6) || head >= 0xd9) {
      const size = 1 << (head >= 0xd9 ? head - 0xd9 : head - 0xc4);
      offset += size + uint(bytes, offset, size);
    } else if (head === 0xd4 && bytes[offset] === 0 && bytes[offset + 1] === 0) {
      offset += 2; // msgpackr's form of undefined
    } else offset += scalarBytes(head);
    if (entries > 0) {
      elements += entries;
      if (elements > maxElements)
        throw new RangeError(`the row of the store has more than ${maxElements} elements`);
      if (around.push(missing) > maxDepth)
        throw new RangeError(`the row of the store is nested more than ${maxDepth} levels deep`);
      missing = entries;
    }
    while (missing === 0) {
      const outer = around.pop();
      if (outer === undefined) {
        if (offset === end) return;
        throw new RangeError('unexpected bytes follow the row of the store');
      }
      missing = outer;
    }
  }
  throw new RangeError('the row of the store is truncated');
}

/**
 * Returns the number of bytes that follow the head byte of nil, a boolean, a float or an integer.
 */
function scalarBytes(head: number): number {
  if (head === 0xc0 || head === 0xc2 || head === 0xc3) return 0;
  if (head === 0xca) return 4;
  if (head === 0xcb) return 8;
  if (head >= 0xcc && head <= 0xcf) return 1 << (head - 0xcc);
  if (head >= 0xd0 && head <= 0xd3) return 1 << (head - 0xd0);
  throw new RangeError(
    'the row of the store contains a MessagePack extension type, which is not supported',
  );
}

function uint(bytes: Uint8Array, offset: number, size: number): number {
  let value = 0;
  for (let index = offset; index < offset + size; index += 1) {
    value = value * 256 + (bytes[index] ?? 0);
  }
  return value;
}
