/**
 * Manifest of a bundle: the list of its files. The signed metadata contain the digest of the
 * manifest.
 */

import Type, { type Static } from 'typebox';
import { compareTexts, compileSchema } from '#runtime';
import { EdgeError } from '../errors.ts';
import { SharedValues } from './shared-values.ts';

/** Bounds of a bundle. A site refuses a bundle that exceeds one of them. */
export const bundleBounds = {
  files: 100_000,
  /** Maximum total size of the files, in bytes. */
  totalBytes: 4 * 2 ** 30,
  /** Maximum length of a path, in bytes of UTF-8. */
  pathBytes: 1024,
  manifestBytes: 16 * 2 ** 20,
} as const;

/**
 * Path of a file in the bundle. The file lists the approved plans, which sites may run without
 * their centre.
 */
export const ordersFile = 'orders.yml';

/** Schema of a SHA-256 digest in hexadecimal digits. */
export const Sha256 = Type.String({ pattern: '^[0-9a-f]{64}$' });

const BundleFileSchema = Type.Object(
  {
    path: Type.String({ minLength: 1, maxLength: bundleBounds.pathBytes }),
    sha256: Sha256,
    length: Type.Integer({ minimum: 0, maximum: bundleBounds.totalBytes }),
    executable: Type.Boolean(),
  },
  { additionalProperties: false },
);

const ManifestSchema = Type.Object(
  {
    format: Type.Literal(1),
    /** Id of the centre, as in its root metadata. */
    centre: Type.String({ minLength: 1, maxLength: 64 }),
    version: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
    /** Time at which the centre created the release, in milliseconds since 1970. */
    createdAt: Type.Integer({ minimum: 0 }),
    /**
     * Maximum time without contact to the centre, in seconds. After this time, the site starts no
     * orders of the centre and no approved plans.
     */
    validOfflineSeconds: Type.Optional(Type.Integer({ minimum: 60, maximum: 31_536_000 })),
    /** Lowest version of saltbridge that can install the bundle. */
    requires: Type.Optional(Type.String({ pattern: '^\\d+\\.\\d+\\.\\d+$' })),
    files: Type.Array(BundleFileSchema, { maxItems: bundleBounds.files }),
  },
  { additionalProperties: false },
);

export type BundleFile = Readonly<Static<typeof BundleFileSchema>>;
export type Manifest = Readonly<Omit<Static<typeof ManifestSchema>, 'files'>> & {
  /** Files, sorted by path. */
  readonly files: readonly BundleFile[];
};

const check = compileSchema(ManifestSchema);

/**
 * Names of the files and directories at the top level of a bundle. The directory `tree` contains
 * files of the centre at their absolute paths.
 */
const topNames: ReadonlySet<string> = new Set(['etc', 'tree', 'keys', ordersFile]);

/**
 * Checks that a path begins with a permitted name and does not leave the directory of the bundle.
 * @throws EdgeError ERR_BUNDLE_PATH
 */
export function requireInnerPath(path: string): void {
  const segments = path.split('/');
  const isInner =
    segments.every((it) => it !== '' && it !== '.' && it !== '..') &&
    !/[\0\\]/.test(path) &&
    topNames.has(segments[0] ?? '') &&
    segments.length > 1 === (segments[0] !== ordersFile) &&
    Buffer.byteLength(path) <= bundleBounds.pathBytes;
  if (isInner) return;
  const shown = JSON.stringify(path.slice(0, 200));
  throw new EdgeError(
    'ERR_BUNDLE_PATH',
    `the bundle contains a file with an invalid path: ${shown}`,
  );
}

/** Encodes a manifest as JSON. */
export function encodeManifest(manifest: Manifest): Buffer {
  return Buffer.from(JSON.stringify(manifest));
}

/**
 * Decodes a manifest and checks its paths and bounds.
 * @throws EdgeError ERR_BUNDLE_CONTENT, ERR_BUNDLE_PATH
 */
export function decodeManifest(bytes: Uint8Array): Manifest {
  if (bytes.length > bundleBounds.manifestBytes) throw refuse('the manifest is too large');
  const manifest = parse(bytes);
  requireValidFiles(manifest.files);
  return manifest;
}

/** Manifest as an object, and as the bytes that the centre created. */
export interface DecodedManifest {
  readonly manifestBytes: Buffer;
  readonly manifest: Manifest;
}

/**
 * Decoded manifests, by digest. If one process runs several sites, they share these objects,
 * because the manifest of a release with many files is large.
 */
const shared = new SharedValues<Manifest>();
const encoded = new WeakMap<Manifest, Buffer>();

/**
 * Decodes a manifest like {@link decodeManifest}. If one process runs several sites, they share the
 * decoded manifest.
 * @param sha256 - digest of the bytes
 * @throws EdgeError ERR_BUNDLE_CONTENT, ERR_BUNDLE_PATH
 */
export function shareManifest(sha256: string, manifestBytes: Buffer): DecodedManifest {
  const manifest = shared.of(sha256, () => {
    const decoded = decodeManifest(manifestBytes);
    for (const file of decoded.files) Object.freeze(file);
    Object.freeze(decoded.files);
    encoded.set(decoded, manifestBytes);
    return Object.freeze(decoded);
  });
  return { manifest, manifestBytes: encoded.get(manifest) ?? manifestBytes };
}

function parse(bytes: Uint8Array): Manifest {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (cause) {
    throw refuse('the manifest is not JSON', cause);
  }
  if (!check.Check(value)) throw refuse('the manifest does not match its schema');
  return value;
}

/**
 * Checks the paths, the order and the total size of files.
 * @throws EdgeError ERR_BUNDLE_CONTENT, ERR_BUNDLE_PATH
 */
export function requireValidFiles(files: readonly BundleFile[]): void {
  if (files.length > bundleBounds.files) {
    throw refuse(`more than ${bundleBounds.files} files`);
  }
  const paths = new Set<string>();
  let total = 0;
  let former = '';
  for (const { path, length } of files) {
    requireInnerPath(path);
    if (paths.size > 0 && compareTexts(former, path) >= 0) {
      throw refuse('the files of the manifest are not sorted by path');
    }
    paths.add(path);
    former = path;
    total += length;
  }
  if (total > bundleBounds.totalBytes) {
    throw refuse(`the files have more than ${bundleBounds.totalBytes} bytes`);
  }
  for (const path of paths) {
    for (let end = path.lastIndexOf('/'); end > 0; end = path.lastIndexOf('/', end - 1)) {
      if (!paths.has(path.slice(0, end))) continue;
      const shown = JSON.stringify(path.slice(0, end));
      throw new EdgeError('ERR_BUNDLE_PATH', `${shown} is both a file and a directory`);
    }
  }
}

function refuse(problem: string, cause?: unknown): EdgeError {
  const options = cause === undefined ? {} : { cause };
  return new EdgeError('ERR_BUNDLE_CONTENT', `bundle refused: ${problem}`, options);
}
