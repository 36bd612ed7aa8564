/** Cache of packed file lists. All requests share its memory. */

import type { FileLists, ListRequester } from '#master';
import { type PackedTexts, packListHead, packMapHead, packWireTexts } from '#minion-protocol';
import { maxSliceSteps, sortInSlices, unlimitedSteps, WorkBudget } from '#runtime';

/** Kind of file list that minions can request, for example `files` or `emptyDirs`. */
export type ListKind = keyof FileLists;

/** Estimated work for packing one text, in steps. */
const textSteps = 50;
/** Number of texts that are packed before other work may run. */
const sliceTexts = maxSliceSteps / textSteps / 4;

/** Packed entries of a list, with the offset of each entry. They are sorted by their names. */
interface PackedList extends PackedTexts {
  readonly names: readonly string[];
}

/**
 * Cache of file lists that are packed as replies. Each list is packed once, in slices, for all
 * requests that wait for it. The reply for a path prefix is a part of the packed list. The work for
 * a request is therefore independent of the number of files. Packed lists are garbage-collected
 * together with the lists that they contain.
 */
export class PackedLists {
  readonly #kept = new WeakMap<FileLists, Map<ListKind, Promise<PackedList>>>();

  /**
   * Returns the reply to a request for a file list, in pieces.
   * @param prefix - only paths with this prefix are returned; as in Salt, slashes around it are
   * ignored
   * @param requester - minion towards whose rate limit the packing counts. Default: it does not count
   */
  async pack(
    lists: FileLists,
    kind: ListKind,
    prefix: string,
    requester?: ListRequester,
  ): Promise<readonly Buffer[]> {
    const start = prefix.replace(/^\/+/, '').replace(/(?<!\/)\/+$/, '');
    const { names, bytes, offsets } = await this.#packed(lists, kind, requester);
    const from = firstIndex(names, (name) => name >= start);
    const to = firstIndex(names, (name) => name >= start && !name.startsWith(start));
    const head = kind === 'links' ? packMapHead : packListHead;
    return [head(to - from), bytes.subarray(offsets[from], offsets[to])];
  }

  async #packed(
    lists: FileLists,
    kind: ListKind,
    requester: ListRequester | undefined,
  ): Promise<PackedList> {
    const kept = this.#kept.get(lists) ?? new Map<ListKind, Promise<PackedList>>();
    this.#kept.set(lists, kept);
    if (!kept.has(kind)) await requester?.pay(countOf(lists, kind));
    // Another request may have packed the list while this one waited.
    const packed = kept.get(kind) ?? packList(lists, kind, requester?.owner);
    kept.set(kind, packed);
    return packed;
  }
}

function countOf(lists: FileLists, kind: ListKind): number {
  return kind === 'links' ? lists.links.size : lists[kind].length;
}

async function packList(
  lists: FileLists,
  kind: ListKind,
  owner: string | undefined,
): Promise<PackedList> {
  const budget = new WorkBudget(unlimitedSteps, owner);
  if (kind !== 'links') {
    const names = await sortInSlices(lists[kind], (name) => name, budget);
    return { names, ...(await packTexts(names, budget)) };
  }
  const links = await sortInSlices([...lists.links], ([link]) => link, budget);
  const { bytes, offsets } = await packTexts(links.flat(), budget);
  // An entry is a link and its target.
  return {
    names: links.map(([link]) => link),
    bytes,
    offsets: offsets.filter((_, at) => at % 2 === 0),
  };
}

/** Packs texts in slices. Other work can run after each slice. */
async function packTexts(texts: readonly string[], budget: WorkBudget): Promise<PackedTexts> {
  const parts: Buffer[] = [];
  const offsets = new Uint32Array(texts.length + 1);
  let length = 0;
  for (let from = 0; from < texts.length; from += sliceTexts) {
    const slice = texts.slice(from, from + sliceTexts);
    const packed = packWireTexts(slice);
    for (let at = 1; at <= slice.length; at += 1) {
      offsets[from + at] = length + (packed.offsets[at] ?? 0);
    }
    parts.push(packed.bytes);
    length += packed.bytes.length;
    await budget.giveWayAfter(slice.length * textSteps);
  }
  return { bytes: Buffer.concat(parts, length), offsets };
}

/**
 * Returns the index of the first name that passes a test. In the sorted list, all names that fail
 * must precede all names that pass. Returns the number of names if none passes.
 */
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
