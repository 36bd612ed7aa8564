/** What a pillar was made from: as long as that is the same, so is the pillar. */
import { isWireMap, type WireMap, type WireValue } from '../../minion-protocol/index.ts';
import { GrainReads } from './grains.ts';
import type { PillarSources } from './sources.ts';

/** A file that was looked for. */
export interface FileRead {
  readonly path: string;
  readonly saltenv: string;
  /** `undefined`: it was not there. */
  readonly digest: string | undefined;
}

/** The SLS of an environment, where a pattern went through their names. */
interface ListRead {
  readonly saltenv: string;
  /** Of the names. */
  readonly digest: string;
}

/** See above. It holds no text of the files. */
export interface MadeFrom {
  readonly files: readonly FileRead[];
  readonly lists: readonly ListRead[];
  readonly grains: GrainReads;
}

/** Whether a pillar made now, with these grains, would be made from the same. */
export async function isCurrent(
  { files, lists, grains: read }: MadeFrom,
  sources: PillarSources,
  grains: WireMap,
): Promise<boolean> {
  if (!read.agreeWith(grains)) return false;
  const looks = [
    ...files.map(async ({ path, saltenv, digest }) => {
      return (await sources.digest(path, saltenv)) === digest;
    }),
    ...lists.map(async ({ saltenv, digest }) => {
      return sources.namesDigest(await sources.lists(saltenv)) === digest;
    }),
  ];
  return (await Promise.all(looks)).every((isSame) => isSame);
}

/** As it is stored; {@link unpackMadeFrom} reads it. */
export function packMadeFrom({ files, lists, grains }: MadeFrom): WireMap {
  return {
    files: files.map(({ saltenv, path, digest }) => [saltenv, path, digest ?? null]),
    lists: lists.map(({ saltenv, digest }) => [saltenv, digest]),
    grains: Array.from(grains.values, ([name, value]) => [name, value]),
    whole: grains.whole ?? null,
  };
}

/** @returns `undefined` for what is none */
export function unpackMadeFrom(value: WireValue | undefined): MadeFrom | undefined {
  if (!isWireMap(value)) return undefined;
  const grains = new GrainReads();
  for (const [name, read] of tuples(value.grains)) {
    if (typeof name === 'string') grains.values.set(name, bytesOf(read) ?? null);
  }
  grains.whole = bytesOf(value.whole);
  return {
    files: tuples(value.files).map(([saltenv, path, digest]) => ({
      saltenv: String(saltenv),
      path: String(path),
      digest: typeof digest === 'string' ? digest : undefined,
    })),
    lists: tuples(value.lists).map(([saltenv, digest]) => ({
      saltenv: String(saltenv),
      digest: String(digest),
    })),
    grains,
  };
}

function tuples(value: WireValue | undefined): (readonly WireValue[])[] {
  return Array.isArray(value) ? value.filter((item) => Array.isArray(item)) : [];
}

function bytesOf(value: WireValue | undefined): Buffer | undefined {
  return value instanceof Uint8Array ? Buffer.from(value) : undefined;
}
