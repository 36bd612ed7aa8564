/** Cache of packed file lists. All requests share its memory. */

import type { FileLists } from '#master';
import { type PackedTexts, packListHead, packMapHead, packWireTexts } from '#minion-protocol';

/** Kind of a list that minions request. */
export type ListKind = keyof FileLists;

/** Packed entries of a list, with the offset of each entry. They are sorted by their names. */
interface PackedList extends PackedTexts {
  readonly names: readonly string[];
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
    const head = kind === 'links' ? packMapHead : packListHead;
    return [head(to - from), bytes.subarray(offsets[from], offsets[to])];
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
    return { names, ...packWireTexts(names) };
  }
  const links = [...lists.links].sort(([a], [b]) => (a < b ? -1 : 1));
  const { bytes, offsets } = packWireTexts(links.flat());
  // An entry is a link and its target.
  return {
    names: links.map(([link]) => link),
    bytes,
    offsets: offsets.filter((_, at) => at % 2 === 0),
  };
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
