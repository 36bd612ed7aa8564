/**
 * Encodes the metadata files of an update as one body. The files that the site already has are the
 * dictionary of the compression. A site verifies the files with tuf-js, so the body itself needs no
 * protection.
 */

import { promisify } from 'node:util';
import { constants, zstdCompress, zstdDecompressSync } from 'node:zlib';
import { packLocal, unpackLocal, type WireValue } from '#minion-protocol';
import { EdgeError } from '../errors.ts';
import { maxMetadataBytes, metadataName } from './bundle-messages.ts';

/**
 * Maximum total size of the metadata files in a body, in bytes. Root files that do not fit are read
 * one by one.
 */
const maxBodyBytes = 4 * maxMetadataBytes;

const maxElements = 1024;

const compress = promisify(zstdCompress);

/** Maximum size of a body that is compressed at the highest level, in bytes. */
const smallBodyBytes = 16_384;

/**
 * Roles of the metadata files that the site already has. These files, in this order, form the
 * dictionary for the compression.
 */
export const knownRoles = ['root', 'targets', 'snapshot'] as const;

/** Metadata files of an update. */
export interface MetadataFiles {
  /** Version of the latest root metadata of the centre. */
  readonly root: number;
  /** Contents of the metadata files, by file name. */
  readonly files: ReadonlyMap<string, Uint8Array>;
}

/**
 * Returns the names of the metadata files from which the compression dictionary is built.
 * @param known - versions of the root, the targets and the snapshot, in this order
 */
export function knownNames(known: readonly number[]): readonly string[] {
  return known.map((version, index) => `${version}.${knownRoles[index]}.json`);
}

/**
 * Encodes metadata files as a compressed body. Stops before the first file with which the body
 * would exceed its maximum size. Compresses in another thread, because a large dictionary takes
 * tens of milliseconds.
 */
export async function encodeMetadata(
  { root, files }: MetadataFiles,
  dictionary: Uint8Array,
): Promise<Buffer> {
  const rows: WireValue[] = [];
  let bytes = 0;
  for (const [name, content] of files) {
    bytes += name.length + content.length + 16;
    if (bytes > maxBodyBytes - 16) break;
    rows.push([name, content]);
  }
  const body = packLocal([root, ...rows]);
  return compress(body, {
    params: {
      [constants.ZSTD_c_compressionLevel]: body.length <= smallBodyBytes ? 19 : 3,
      [constants.ZSTD_c_checksumFlag]: 1,
    },
    ...(dictionary.length === 0 ? {} : { dictionary }),
  });
}

/**
 * Decodes a body that {@link encodeMetadata} has encoded with the same dictionary.
 * @throws EdgeError ERR_BUNDLE_CONTENT if the body is damaged or too large
 */
export function decodeMetadata(body: Uint8Array, dictionary: Uint8Array): MetadataFiles {
  const [root, ...rows] = unpack(body, dictionary);
  if (typeof root !== 'number') throw malformed();
  const files = new Map<string, Uint8Array>();
  for (const row of rows) {
    if (!Array.isArray(row)) throw malformed();
    const [name, content] = row;
    if (typeof name !== 'string' || !metadataName.test(name)) throw malformed();
    if (!(content instanceof Uint8Array)) throw malformed();
    files.set(name, content);
  }
  return { root, files };
}

function unpack(body: Uint8Array, dictionary: Uint8Array): readonly WireValue[] {
  let value: WireValue;
  try {
    const raw = zstdDecompressSync(body, {
      maxOutputLength: maxBodyBytes,
      ...(dictionary.length === 0 ? {} : { dictionary }),
    });
    value = unpackLocal(raw, { maxBytes: maxBodyBytes, maxDepth: 2, maxElements });
  } catch (cause) {
    throw malformed(cause);
  }
  if (!Array.isArray(value)) throw malformed();
  return value;
}

function malformed(cause?: unknown): EdgeError {
  const problem = 'the metadata of the centre cannot be decoded';
  return new EdgeError('ERR_BUNDLE_CONTENT', problem, cause === undefined ? {} : { cause });
}
