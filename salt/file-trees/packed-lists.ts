/** Cache of packed file lists. All requests share its memory. */

import type { FileLists } from '#master';
import { packWire } from '#minion-protocol';

/** Kind of a list that minions request. */
export type ListKind = keyof FileLists;

/** Packed list, and the offset of each entry. The entries are sorted by their names. */
interface PackedList {
  readonly names: readonly string[];
  readonly bytes: Buffer;
  /** Offsets of the entries in `bytes`, followed by the length of `bytes`. */
  readonly offsets: Uint32Array;
}

/**
 * Cache of file lists that are packed as replies. Each list is packed once. The reply for a path
 * prefix is a part of the packed list, so that a request costs no work that grows with the number
 * of files. Packed lists are garbage-collected together with the lists that they contain.
 */
export class PackedLists {
  readonly #kept = new WeakMap<FileLists, Map<ListKind, PackedList>>();

  /**
   * Returns the pieces of a reply.
   * @param prefix - prefix of the paths; as in Salt, slashes around it are ignored
   */
  pack(lists: FileLists, kind: ListKind, prefix: string): readonly Buffer[] {
    const start = prefix.replace(/^\/+/, '').replace(/(?<!\/)\/+$/, '');
    const { names, bytes, offsets } = this.#packed(lists, kind);
    const from = firstIndex(names, (name) => name >= start);
    const to = firstIndex(names, (name) => name >= start && !name.startsWith(start));
    return [header(kind, to - from), bytes.subarray(offsets[from], offsets[to])];
  }

  #packed(lists: FileLists, kind: ListKind): PackedList {
    const kept = this.#kept.get(lists) ?? new Map<ListKind, PackedList>();
    this.#kept.set(lists, kept);
    const packed = kept.get(kind) ?? packList(lists, kind);
    kept.set(kind, packed);
    return packed;
  }
}

function packList(lists: FileLists, kind: ListKind): PackedList {
  if (kind !== 'links') {
    const names = [...lists[kind]].sort();
    const bytes = packWire(names);
    return { names, bytes, offsets: offsetsOf(bytes, kind, names.map(sizeOf)) };
  }
  const links = new Map([...lists.links].sort(([a], [b]) => (a < b ? -1 : 1)));
  const bytes = packWire(links);
  const sizes = [...links].map(([link, target]) => sizeOf(link) + sizeOf(target));
  return { names: [...links.keys()], bytes, offsets: offsetsOf(bytes, kind, sizes) };
}

function offsetsOf(bytes: Buffer, kind: ListKind, sizes: readonly number[]): Uint32Array {
  const offsets = new Uint32Array(sizes.length + 1);
  let offset = header(kind, sizes.length).length;
  for (const [index, size] of sizes.entries()) {
    offsets[index] = offset;
    offset += size;
  }
  if (offset !== bytes.length) throw new TypeError('a file list has an unexpected packed size');
  offsets[sizes.length] = offset;
  return offsets;
}

/** Returns the size of a packed text in bytes [WIRE 2.1]. */
function sizeOf(text: string): number {
  const bytes = Buffer.byteLength(text);
  if (bytes < 32) return bytes + 1;
  return bytes + (bytes < 65_536 ? 3 : 5);
}

/** Returns the first bytes of a packed list or map with this number of entries. */
function header(kind: ListKind, count: number): Buffer {
  const [short, medium, long] = kind === 'links' ? [0x80, 0xde, 0xdf] : [0x90, 0xdc, 0xdd];
  if (count < 16) return Buffer.of(short + count);
  const isMedium = count < 65_536;
  const bytes = Buffer.alloc(isMedium ? 3 : 5);
  bytes.writeUInt8(isMedium ? medium : long);
  bytes.writeUIntBE(count, 1, bytes.length - 1);
  return bytes;
}

/** Returns the index of the first name that passes, if all later names pass too. */
function firstIndex(names: readonly string[], passes: (name: string) => boolean): number {
  let from = 0;
  let to = names.length;
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (passes(names[middle] ?? '')) to = middle;
    else from = middle + 1;
  }
  return from;
}
