/** Cache of packed file lists. All requests share its memory. */

import type { FileLists } from '#master';
import { packWire, type WireMap } from '#minion-protocol';

/** Kind of a list that minions request. */
export type ListKind = keyof FileLists;

/** Maximum number of packed replies that are cached for one version of the file lists. */
const maxKept = 256;
/** Maximum size of a cached reply for a path prefix, in bytes. Larger replies are not cached. */
const maxKeptBytes = 64 * 1024;

/**
 * Cache of file lists that are packed as replies. Requests with the same arguments share a reply
 * [bench/fileserver]. Replies are garbage-collected together with the lists that they contain.
 */
export class PackedLists {
  readonly #kept = new WeakMap<FileLists, Map<string, Buffer>>();

  /** @param prefix - prefix of the paths; as in Salt, slashes around it are ignored */
  pack(lists: FileLists, kind: ListKind, prefix: string): Buffer {
    const start = prefix.replace(/^\/+/, '').replace(/(?<!\/)\/+$/, '');
    const mark = `${kind} ${start}`;
    const kept = this.#keptOf(lists);
    const known = kept.get(mark);
    if (known !== undefined) return known;
    const packed = packWire(select(lists, kind, start));
    if (start !== '' && packed.length + start.length > maxKeptBytes) return packed;
    if (kept.size >= maxKept) kept.clear();
    kept.set(mark, packed);
    return packed;
  }

  #keptOf(lists: FileLists): Map<string, Buffer> {
    const kept = this.#kept.get(lists) ?? new Map<string, Buffer>();
    this.#kept.set(lists, kept);
    return kept;
  }
}

function select(lists: FileLists, kind: ListKind, start: string): string[] | WireMap {
  const isWanted = (path: string): boolean => path.startsWith(start);
  if (kind !== 'links') return lists[kind].filter(isWanted);
  return Object.fromEntries([...lists.links].filter(([link]) => isWanted(link)));
}
