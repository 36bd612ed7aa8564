/**
 * TUF metadata repository of a centre: root, targets, snapshot and timestamp metadata in the store.
 * The private keys of `root` and `targets` are not in the store. The command line signs with them.
 */

import type { SharedArea, StateOperation } from '#master';
import { createBoundedMap } from '#runtime';
import { fromJson, type Key, tryToWrite } from '#store';
import { EdgeError } from '../errors.ts';
import { edgeLimits } from '../limits.ts';
import { encodeMetadata, knownNames, type MetadataFiles } from './metadata-body.ts';
import { createSigningKey, decodeRoleKey, encodeRoleKey, type SigningKey } from './tuf-keys.ts';
import {
  createSnapshot,
  createTargets,
  createTimestamp,
  type ReleaseTarget,
  readRoot,
  readTargets,
  type VerifiedRoot,
  verify,
} from './tuf-metadata.ts';

const dayMs = 86_400_000;

/**
 * Age of the timestamp metadata after which a running centre signs this metadata again, in
 * milliseconds.
 */
const timestampPeriodMs = dayMs;

/** Version numbers of the current metadata. */
interface Versions {
  readonly root: number;
  readonly targets: number;
  readonly snapshot: number;
  readonly timestamp: number;
  /** Time at which the timestamp metadata were signed, in milliseconds since 1970. */
  readonly signedAt: number;
}

/**
 * Version numbers in the store, and the revision of the row that contains them. The revision is 0
 * if the row does not exist.
 */
interface StoredVersions extends Versions {
  readonly revision: number;
}

const none: Versions = { root: 0, targets: 0, snapshot: 0, timestamp: 0, signedAt: 0 };

const versionsKey: Key = ['tuf', 'versions'];
const fileKey = (name: string): Key => ['tuf', 'file', name];
const onlineKey = (role: string): Key => ['tuf', 'key', role];

/**
 * Number of stored versions of the snapshot metadata and of the targets metadata: the current
 * version, and earlier versions for clients whose update is in progress.
 */
const keptVersions = 3;

/** Public keys of the roles whose private keys the centre stores, in hexadecimal digits. */
export interface OnlineKeys {
  readonly snapshot: string;
  readonly timestamp: string;
}

interface OnlineSigners {
  readonly snapshot: SigningKey;
  readonly timestamp: SigningKey;
}

/** TUF metadata of the releases of a centre. */
export class TufRepository {
  readonly #rows: SharedArea;
  readonly #now: () => number;
  /**
   * Encoded updates of a site's metadata. The key consists of the version of the timestamp metadata
   * and the versions of the metadata that the site already has.
   */
  readonly #bodies = createBoundedMap<string, Buffer>(edgeLimits.metadataBodies);
  /**
   * Updates that are being encoded. Sites that need the same update share the result. The keys have
   * the same form as those of `#bodies`.
   */
  readonly #encoding = new Map<string, Promise<Buffer>>();

  constructor({ rows, now }: { readonly rows: SharedArea; readonly now: () => number }) {
    this.#rows = rows;
    this.#now = now;
  }

  /** Returns the content of a metadata file, or `undefined` if it does not exist. */
  async file(name: string): Promise<Uint8Array | undefined> {
    return (await this.#rows.get(fileKey(name)))?.value;
  }

  /**
   * Returns the metadata files that a site needs for an update, as one compressed body.
   * @param known - the site's versions of the root, the targets and the snapshot, in this order
   * @returns `body`: the compressed files. `known`: the number of the site's own files (the first 0
   * to 3) that the site needs as dictionary to decompress the body
   */
  async update(
    known: readonly number[],
  ): Promise<{ readonly body: Uint8Array; readonly known: number }> {
    const dictionary: Uint8Array[] = [];
    for (const name of knownNames(known)) {
      const bytes = await this.file(name);
      if (bytes === undefined) break;
      dictionary.push(bytes);
    }
    // The centre may lack files of these versions. Files from the first missing one on are not part
    // of the dictionary. The centre sends its own files instead.
    const used = known.slice(0, dictionary.length);
    const { timestamp } = await this.#versions();
    const key = [timestamp, ...used].join(' ');
    const stored = this.#bodies.get(key);
    if (stored !== undefined) return { body: stored, known: used.length };
    const encode = async (): Promise<Buffer> => {
      const files = await this.#filesSince(used);
      const body = await encodeMetadata(files, Buffer.concat(dictionary));
      if (files.timestamp === timestamp) this.#bodies.set(key, body);
      return body;
    };
    const encoding = this.#encoding.get(key) ?? encode().finally(() => this.#encoding.delete(key));
    this.#encoding.set(key, encoding);
    return { body: await encoding, known: used.length };
  }

  /**
   * Returns the metadata files that a site with the given versions lacks. Retries if other metadata
   * are published meanwhile.
   */
  async #filesSince([knownRoot = 0, knownTargets, knownSnapshot]: readonly number[]): Promise<
    MetadataFiles & Pick<Versions, 'timestamp'>
  > {
    for (;;) {
      const versions = await this.#versions();
      const { root, targets, snapshot } = versions;
      const names = ['timestamp.json'];
      if (snapshot !== knownSnapshot) names.push(`${snapshot}.snapshot.json`);
      if (targets !== knownTargets) names.push(`${targets}.targets.json`);
      for (let next = knownRoot + 1; next <= root; next += 1) names.push(`${next}.root.json`);
      const files = new Map<string, Uint8Array>();
      for (const name of names) {
        const bytes = await this.file(name);
        if (bytes !== undefined) files.set(name, bytes);
      }
      const { timestamp } = versions;
      if ((await this.#versions()).timestamp === timestamp) return { root, files, timestamp };
    }
  }

  /** Returns the current root metadata, or `undefined` if no keys were created yet. */
  async root(): Promise<Uint8Array | undefined> {
    const { root } = await this.#versions();
    return root === 0 ? undefined : this.file(`${root}.root.json`);
  }

  /**
   * Returns the current root metadata.
   * @throws EdgeError ERR_BUNDLE_KEYS if no keys were created yet
   */
  async requireRoot(): Promise<VerifiedRoot> {
    const bytes = await this.root();
    if (bytes !== undefined) return readRoot(bytes);
    const problem = 'the centre has no release keys: run `saltbridge site keys init`';
    throw new EdgeError('ERR_BUNDLE_KEYS', problem);
  }

  /**
   * Returns the public keys of the roles `snapshot` and `timestamp`. The first call creates them.
   * @param areNew - whether to create new keys. New keys take effect when new root metadata list
   * them
   */
  async onlineKeys(areNew = false): Promise<OnlineKeys> {
    const signers = areNew ? undefined : await this.#signers('');
    if (signers !== undefined) return publicOf(signers);
    const created = { snapshot: createSigningKey(), timestamp: createSigningKey() };
    const stage = (await this.#versions()).root === 0 ? '' : 'next-';
    await this.#rows.write([
      this.#putKey(`${stage}snapshot`, created.snapshot),
      this.#putKey(`${stage}timestamp`, created.timestamp),
    ]);
    return publicOf(created);
  }

  /**
   * Stores new root metadata. They must list the online keys of this centre. If they replace other
   * root metadata, keys of the former root must also have signed them.
   * @throws EdgeError ERR_BUNDLE_SIGNATURE, ERR_BUNDLE_OLD, ERR_BUNDLE_KEYS
   */
  async setRoot(bytes: Uint8Array): Promise<void> {
    const next = await readRoot(bytes);
    const versions = await this.#versions();
    if (next.version !== versions.root + 1) {
      const problem = `the new root has version ${next.version}, but the next version is ${versions.root + 1}`;
      throw new EdgeError('ERR_BUNDLE_OLD', problem);
    }
    if (versions.root > 0) {
      const former = await this.requireRoot();
      verify(former.metadata, 'root', next.metadata);
      if (former.centre !== next.centre) {
        throw new EdgeError('ERR_BUNDLE_KEYS', 'the new root belongs to another centre');
      }
    }
    const staged = await this.#signers('next-');
    const current = await this.#signers('');
    const isFor = (it: OnlineSigners | undefined): it is OnlineSigners =>
      it !== undefined &&
      next.keys.snapshot.includes(it.snapshot.publicKey) &&
      next.keys.timestamp.includes(it.timestamp.publicKey);
    const signers = [staged, current].find(isFor);
    if (signers === undefined) {
      throw new EdgeError(
        'ERR_BUNDLE_KEYS',
        'the new root does not list the online keys of this centre',
      );
    }
    const targets = await this.#currentTargets(versions);
    const renewed = await this.#sign({ ...versions, root: next.version }, signers, targets);
    const isWritten = await tryToWrite(this.#rows, [
      { op: 'put', key: fileKey(`${next.version}.root.json`), value: bytes },
      this.#putKey('snapshot', signers.snapshot),
      this.#putKey('timestamp', signers.timestamp),
      { op: 'delete', key: onlineKey('next-snapshot') },
      { op: 'delete', key: onlineKey('next-timestamp') },
      ...renewed,
    ]);
    if (isWritten) return;
    throw new EdgeError(
      'ERR_BUNDLE_OLD',
      'other metadata were published meanwhile; repeat the command',
    );
  }

  /** Returns unsigned targets metadata, which the command line signs. */
  async proposeTargets(targets: readonly ReleaseTarget[]): Promise<Uint8Array> {
    const versions = await this.#versions();
    return createTargets(versions.targets + 1, targets, [], this.#now());
  }

  /**
   * Verifies signed targets metadata and returns their targets.
   * @throws EdgeError ERR_BUNDLE_SIGNATURE if too few keys signed, ERR_BUNDLE_OLD if another
   * release was published meanwhile
   */
  async requireTargets(bytes: Uint8Array): Promise<readonly ReleaseTarget[]> {
    const root = await this.requireRoot();
    const metadata = await readTargets(bytes);
    verify(root.metadata, 'targets', metadata);
    const versions = await this.#versions();
    if (metadata.signed.version !== versions.targets + 1) {
      const problem = 'another release was published meanwhile; repeat the command';
      throw new EdgeError('ERR_BUNDLE_OLD', problem);
    }
    return Object.values(metadata.signed.targets).map(toTarget);
  }

  /**
   * Returns the store operations that publish signed targets metadata. Call {@link requireTargets}
   * first, because this method does not verify them. If the stored metadata change before the
   * operations are written, the write fails with StoreError ERR_REVISION.
   */
  async publish(bytes: Uint8Array): Promise<readonly StateOperation[]> {
    const versions = await this.#versions();
    const signers = await this.#requireSigners();
    return this.#sign(versions, signers, { version: versions.targets + 1, bytes });
  }

  /**
   * Signs the snapshot and timestamp metadata again if their signatures are more than a day old.
   * Returns whether it signed them.
   */
  async renew(): Promise<boolean> {
    const versions = await this.#versions();
    const age = this.#now() - versions.signedAt;
    if (versions.root === 0 || (age >= 0 && age < timestampPeriodMs)) return false;
    const targets = await this.#currentTargets(versions);
    return tryToWrite(
      this.#rows,
      await this.#sign(versions, await this.#requireSigners(), targets),
    );
  }

  async #sign(
    { revision, ...former }: StoredVersions,
    signers: OnlineSigners,
    targets: { readonly version: number; readonly bytes: Uint8Array } | undefined,
  ): Promise<readonly StateOperation[]> {
    const now = this.#now();
    // Before the first release there are no targets, so nothing has to be signed.
    if (targets === undefined) return [putVersions({ ...former, signedAt: now }, revision)];
    const snapshot = former.snapshot + 1;
    const timestamp = former.timestamp + 1;
    const snapshotBytes = await createSnapshot(snapshot, targets, signers.snapshot, now);
    const timestampBytes = await createTimestamp(
      timestamp,
      { version: snapshot, bytes: snapshotBytes },
      signers.timestamp,
      now,
    );
    const put = (name: string, value: Uint8Array): StateOperation => ({
      op: 'put',
      key: fileKey(name),
      value,
    });
    return [
      put(`${targets.version}.targets.json`, targets.bytes),
      put(`${snapshot}.snapshot.json`, snapshotBytes),
      put('timestamp.json', timestampBytes),
      { op: 'delete', key: fileKey(`${snapshot - keptVersions}.snapshot.json`) },
      { op: 'delete', key: fileKey(`${targets.version - keptVersions}.targets.json`) },
      putVersions(
        { ...former, targets: targets.version, snapshot, timestamp, signedAt: now },
        revision,
      ),
    ];
  }

  async #currentTargets({
    targets: version,
  }: Versions): Promise<{ version: number; bytes: Uint8Array } | undefined> {
    const bytes = version === 0 ? undefined : await this.file(`${version}.targets.json`);
    return bytes && { version, bytes };
  }

  async #versions(): Promise<StoredVersions> {
    const row = await this.#rows.get(versionsKey);
    if (row === undefined) return { ...none, revision: 0 };
    const versions = fromJson(row.value) as Versions; // written by this class
    return { ...versions, revision: row.revision };
  }

  async #requireSigners(): Promise<OnlineSigners> {
    const signers = await this.#signers('');
    if (signers !== undefined) return signers;
    throw new EdgeError('ERR_BUNDLE_KEYS', 'the centre has no online keys');
  }

  async #signers(stage: string): Promise<OnlineSigners | undefined> {
    const [snapshot, timestamp] = await Promise.all([
      this.#key(`${stage}snapshot`),
      this.#key(`${stage}timestamp`),
    ]);
    return snapshot && timestamp && { snapshot, timestamp };
  }

  async #key(name: string): Promise<SigningKey | undefined> {
    const row = await this.#rows.get(onlineKey(name));
    if (row === undefined) return undefined;
    return decodeRoleKey(Buffer.from(this.#rows.unseal(row.value)).toString('utf8'), name).key;
  }

  #putKey(name: string, key: SigningKey): StateOperation {
    const role = name.endsWith('snapshot') ? 'snapshot' : 'timestamp';
    const text = encodeRoleKey({ role, centre: '', key });
    const value = this.#rows.seal(Buffer.from(text));
    return { op: 'put', key: onlineKey(name), value };
  }
}

/**
 * Returns the operation that stores the version numbers of the metadata. Its write fails if the
 * stored numbers have changed meanwhile.
 * @param ifRevision - revision of the row from which the former numbers were read
 */
function putVersions(versions: Versions, ifRevision: number): StateOperation {
  const value = Buffer.from(JSON.stringify(versions));
  return { op: 'put', key: versionsKey, value, ifRevision };
}

function publicOf({ snapshot, timestamp }: OnlineSigners): OnlineKeys {
  return { snapshot: snapshot.publicKey, timestamp: timestamp.publicKey };
}

function toTarget({
  path,
  length,
  hashes,
}: {
  readonly path: string;
  readonly length: number;
  readonly hashes: Readonly<Record<string, string>>;
}): ReleaseTarget {
  const [, ring = '', version = ''] = /^rings\/([^/]+)\/(\d+)$/.exec(path) ?? [];
  const { sha256 } = hashes;
  if (ring !== '' && sha256 !== undefined)
    return { ring, version: Number(version), length, sha256 };
  throw new EdgeError(
    'ERR_BUNDLE_SIGNATURE',
    `the metadata contain ${path}, which is not the path of a release's target`,
  );
}
