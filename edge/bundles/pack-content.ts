/**
 * Determines the files and the compression dictionary of a pack from two manifests: that of the
 * former bundle and that of the new one. Site and centre compute the same result.
 */

import { constants, type ZstdOptions } from 'node:zlib';
import type { BundleFile, Manifest } from './manifest.ts';

/**
 * Maximum size of a compression dictionary, in bytes. The dictionary consists of the former
 * versions of the changed files. If these are larger in total, the pack has no dictionary.
 */
const maxDictionaryBytes = 32 * 2 ** 20;

/**
 * Base-2 logarithm of the maximum compression window in bytes: 26 means 64 MiB. The window limits
 * the memory that a site needs to decompress a pack.
 */
const maxWindowLog = 26;

/**
 * Compression settings by the maximum size of the content, in bytes. `distant` is 1 if the
 * compressor searches for distant matches. For small contents, this search is off, because it can
 * make the result several times larger. An example is the delta of a manifest, which has many
 * similar lines.
 */
const effort = [
  { maxBytes: 2 ** 20, level: 19, distant: 0 },
  { maxBytes: 16 * 2 ** 20, level: 12, distant: 0 },
  { maxBytes: Infinity, level: 6, distant: 1 },
] as const;

/**
 * Returns the files that a pack contains: for each digest that the former bundle lacks, the first
 * file with this digest.
 */
export function packedFiles(from: Manifest | undefined, to: Manifest): readonly BundleFile[] {
  const known = new Set(from?.files.map(({ sha256 }) => sha256));
  return to.files.filter(({ sha256 }) => {
    if (known.has(sha256)) return false;
    known.add(sha256);
    return true;
  });
}

/**
 * Returns the files of the former bundle that form the dictionary for the compression: the former
 * versions of the changed files. Returns an empty list if the files are too large in total.
 */
export function dictionaryFiles(from: Manifest | undefined, to: Manifest): readonly BundleFile[] {
  if (from === undefined) return [];
  const changed = new Set(packedFiles(from, to).map(({ path }) => path));
  const files = from.files.filter(({ path }) => changed.has(path));
  return totalBytes(files) > maxDictionaryBytes ? [] : files;
}

/** Returns the total size of files, in bytes. */
export function totalBytes(files: readonly { readonly length: number }[]): number {
  return files.reduce((sum, { length }) => sum + length, 0);
}

/**
 * Returns the options for compressing a pack.
 * @param bytes - size of the contents before compression
 */
export function compressionOptions(bytes: number, dictionary: Buffer): ZstdOptions {
  const { level, distant } = effort.find(({ maxBytes }) => bytes <= maxBytes) ?? effort[2];
  const reach = Math.ceil(Math.log2(Math.max(1024, bytes + dictionary.length)));
  return {
    params: {
      [constants.ZSTD_c_compressionLevel]: level,
      [constants.ZSTD_c_windowLog]: Math.min(maxWindowLog, reach),
      [constants.ZSTD_c_enableLongDistanceMatching]: distant,
    },
    pledgedSrcSize: bytes,
    ...(dictionary.length === 0 ? {} : { dictionary }),
  };
}

/** Returns the options for decompressing a pack. */
export function decompressionOptions(dictionary: Buffer): ZstdOptions {
  return {
    params: { [constants.ZSTD_d_windowLogMax]: maxWindowLog },
    ...(dictionary.length === 0 ? {} : { dictionary }),
  };
}
