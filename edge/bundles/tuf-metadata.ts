/**
 * Metadata of The Update Framework: roots, targets, snapshots and timestamps as signed bytes. The
 * packages of The Update Framework are loaded on first use.
 */

import { hash } from 'node:crypto';
import type { Metadata, Root, Targets } from '@tufjs/models';
import { EdgeError } from '../errors.ts';
import { keyIdOf, type SigningKey, signWith, type TufRole, tufRoles } from './tuf-keys.ts';

const dayMs = 86_400_000;

/** Validity period of the metadata of each role of The Update Framework, in milliseconds. */
const validityMs: Readonly<Record<TufRole, number>> = {
  root: 365 * dayMs,
  targets: 90 * dayMs,
  snapshot: 14 * dayMs,
  timestamp: 14 * dayMs,
};

/** Number of keys of the role `root` that must sign root metadata. */
const rootThreshold = 2;

/** Field of the signed root metadata that contains the id of the centre. */
const centreField = 'x-saltbridge-centre';

/**
 * Target of The Update Framework for one ring (group of sites) of a release. The target file is the
 * manifest of the bundle.
 */
export interface ReleaseTarget {
  readonly ring: string;
  readonly version: number;
  readonly length: number;
  readonly sha256: string;
}

/** Returns the path of a release's target in the targets metadata. */
export function targetPath(ring: string, version: number): string {
  return `rings/${ring}/${version}`;
}

/** Public keys of each role, in hexadecimal digits. */
export type RoleKeys = Readonly<Record<TufRole, readonly string[]>>;

/** Content of root metadata: their version, and the id and the keys of the centre. */
export interface RootContent {
  readonly version: number;
  readonly centre: string;
  readonly keys: RoleKeys;
}

async function models(): Promise<typeof import('@tufjs/models')> {
  return import('@tufjs/models');
}

/**
 * Creates root metadata, signed by the given keys.
 * @param now - current time, in milliseconds since 1970
 */
export async function createRoot(
  { version, centre, keys }: RootContent,
  signers: readonly SigningKey[],
  now: number,
): Promise<Buffer> {
  const { Key, Metadata, Root } = await models();
  const { Role } = await import('@tufjs/models/dist/role.js');
  const publicKeys = [...new Set(tufRoles.flatMap((role) => keys[role]))];
  const root = new Root({
    version,
    specVersion: '1.0.31',
    expires: isoTime(now + validityMs.root),
    consistentSnapshot: true,
    unrecognizedFields: { [centreField]: centre },
    keys: Object.fromEntries(
      publicKeys.map((publicKey) => {
        const keyVal = { public: publicKey };
        const keyID = keyIdOf(publicKey);
        return [keyID, new Key({ keyID, keyType: 'ed25519', scheme: 'ed25519', keyVal })];
      }),
    ),
    roles: Object.fromEntries(
      tufRoles.map((role) => {
        const threshold = role === 'root' ? rootThreshold : 1;
        return [role, new Role({ keyIDs: keys[role].map(keyIdOf), threshold })];
      }),
    ),
  });
  return signed(new Metadata(root), signers);
}

/** Creates targets metadata. They are unsigned if `signers` is empty. */
export async function createTargets(
  version: number,
  targets: readonly ReleaseTarget[],
  signers: readonly SigningKey[],
  now: number,
): Promise<Buffer> {
  const { Metadata, TargetFile, Targets } = await models();
  const files = targets.map(({ ring, version: release, length, sha256 }) => {
    const path = targetPath(ring, release);
    return [path, new TargetFile({ path, length, hashes: { sha256 } })] as const;
  });
  const content = new Targets({
    version,
    specVersion: '1.0.31',
    expires: isoTime(now + validityMs.targets),
    targets: Object.fromEntries(files),
  });
  return signed(new Metadata(content), signers);
}

/** Creates signed snapshot metadata for the given targets metadata. */
export async function createSnapshot(
  version: number,
  targets: { readonly version: number; readonly bytes: Uint8Array },
  signer: SigningKey,
  now: number,
): Promise<Buffer> {
  const { Metadata, MetaFile, Snapshot } = await models();
  const content = new Snapshot({
    version,
    specVersion: '1.0.31',
    expires: isoTime(now + validityMs.snapshot),
    meta: { 'targets.json': new MetaFile(fileOf(targets)) },
  });
  return signed(new Metadata(content), [signer]);
}

/** Creates signed timestamp metadata for the given snapshot metadata. */
export async function createTimestamp(
  version: number,
  snapshot: { readonly version: number; readonly bytes: Uint8Array },
  signer: SigningKey,
  now: number,
): Promise<Buffer> {
  const { Metadata, MetaFile, Timestamp } = await models();
  const content = new Timestamp({
    version,
    specVersion: '1.0.31',
    expires: isoTime(now + validityMs.timestamp),
    snapshotMeta: new MetaFile(fileOf(snapshot)),
  });
  return signed(new Metadata(content), [signer]);
}

/**
 * Adds signatures to unsigned targets metadata.
 * @throws EdgeError ERR_BUNDLE_SIGNATURE if the bytes are not targets metadata
 */
export async function signTargets(
  bytes: Uint8Array,
  signers: readonly SigningKey[],
): Promise<Buffer> {
  return signed(await readTargets(bytes), signers);
}

/**
 * Reads targets metadata without verifying their signatures.
 * @throws EdgeError ERR_BUNDLE_SIGNATURE if the bytes are not targets metadata
 */
export async function readTargets(bytes: Uint8Array): Promise<Metadata<Targets>> {
  const { Metadata, MetadataKind } = await models();
  return read(bytes, (value) => Metadata.fromJSON(MetadataKind.Targets, value));
}

/**
 * Reads root metadata, which list the root keys. Verifies that enough of these keys have signed the
 * metadata.
 * @throws EdgeError ERR_BUNDLE_SIGNATURE if the metadata are malformed, or too few keys signed them
 */
export async function readRoot(bytes: Uint8Array): Promise<VerifiedRoot> {
  const { Metadata, MetadataKind } = await models();
  const metadata = read(bytes, (value) => Metadata.fromJSON(MetadataKind.Root, value));
  verify(metadata, 'root', metadata);
  const { version, roles, keys, unrecognizedFields } = metadata.signed;
  const centre = unrecognizedFields[centreField];
  const keysOf = (role: TufRole): readonly string[] =>
    (roles[role]?.keyIDs ?? []).flatMap((id) => keys[id]?.keyVal.public ?? []);
  const threshold = roles.root?.threshold ?? 0;
  if (typeof centre !== 'string' || threshold < rootThreshold) {
    throw new EdgeError(
      'ERR_BUNDLE_SIGNATURE',
      'the root does not contain the id of the centre, or its threshold is too low',
    );
  }
  return {
    version,
    centre,
    threshold,
    keys: {
      root: keysOf('root'),
      targets: keysOf('targets'),
      snapshot: keysOf('snapshot'),
      timestamp: keysOf('timestamp'),
    },
    metadata,
  };
}

/** Root metadata with enough signatures by its own root keys. */
export interface VerifiedRoot extends RootContent {
  /** Number of root keys that must sign root metadata. */
  readonly threshold: number;
  readonly metadata: Metadata<Root>;
}

/**
 * Verifies that enough keys have signed the metadata of a role. Only keys that the root metadata
 * list for this role count.
 * @throws EdgeError ERR_BUNDLE_SIGNATURE if too few keys signed
 */
export function verify(
  root: Metadata<Root>,
  role: TufRole,
  metadata: Metadata<Root> | Metadata<Targets>,
): void {
  try {
    root.verifyDelegate(role, metadata);
  } catch (cause) {
    const problem = `too few keys of the role ${role} signed the metadata`;
    throw new EdgeError('ERR_BUNDLE_SIGNATURE', problem, { cause });
  }
}

function read<T>(bytes: Uint8Array, from: (value: Record<string, never>) => T): T {
  try {
    return from(JSON.parse(Buffer.from(bytes).toString('utf8')));
  } catch (cause) {
    throw new EdgeError('ERR_BUNDLE_SIGNATURE', 'the metadata are malformed', { cause });
  }
}

type AnyMetadata = Pick<Metadata<Root>, 'sign' | 'toJSON'>;

async function signed(metadata: AnyMetadata, signers: readonly SigningKey[]): Promise<Buffer> {
  const { Signature } = await models();
  for (const key of signers) {
    metadata.sign((bytes) => new Signature({ keyID: key.keyId, sig: signWith(key, bytes) }), true);
  }
  return Buffer.from(JSON.stringify(metadata.toJSON()));
}

function fileOf({ version, bytes }: { readonly version: number; readonly bytes: Uint8Array }): {
  version: number;
  length: number;
  hashes: { sha256: string };
} {
  const sha256 = hash('sha256', bytes);
  return { version, length: bytes.length, hashes: { sha256 } };
}

/** Formats a time as The Update Framework requires: without fractions of a second. */
function isoTime(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
