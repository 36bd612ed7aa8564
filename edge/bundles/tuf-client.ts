/**
 * Verifies the metadata of releases with tuf-js. If the process crashes, the files that tuf-js
 * writes may be incomplete. Therefore each update copies the metadata from the store to a temporary
 * directory, and then stores the changed files in one transaction.
 */

import { createHash } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { TargetFile } from '@tufjs/models';
import type { Updater } from 'tuf-js';
import type { StateArea, StateOperation } from '#master';
import { errorMessage, ifPresent, makeDirectory } from '#runtime';
import type { Key } from '#store';
import { EdgeError } from '../errors.ts';
import { maxMetadataBytes, metadataName } from './bundle-messages.ts';
import { bundleBounds } from './manifest.ts';
import { knownRoles, type MetadataFiles } from './metadata-body.ts';
import { tufRoles } from './tuf-keys.ts';
import { type ReleaseTarget, readRoot, targetPath } from './tuf-metadata.ts';

const baseUrl = 'link://centre/metadata';

const fileKey = (name: string): Key => ['bundle', 'tuf', name];
/**
 * Key of the row with the digest that {@link TufClient} computes from the root metadata of the
 * joined centre. If the digest changes, the site deletes its stored metadata.
 */
const joinedKey: Key = ['bundle', 'tuf', 'joined'];

const names: readonly string[] = tufRoles.map((role) => `${role}.json`);

export interface TufClientOptions {
  readonly rows: Pick<StateArea, 'get' | 'write'>;
  /** Directory in which the temporary directories are created. */
  readonly directory: string;
  /**
   * Returns the root metadata that the site received when it joined, or `undefined` if it has not
   * joined.
   */
  readonly joinedRoot: () => Promise<Uint8Array | undefined>;
  /**
   * Returns a number that changes when the site has changed its centre. The site then deletes its
   * stored metadata and trusts {@link joinedRoot} again, even if both centres have the same root.
   * Default: always 0.
   */
  readonly trustEpoch?: () => number;
  /**
   * Reads a metadata file from the centre. Returns `undefined` if the centre does not have the
   * file.
   */
  readonly fetch: (name: string) => Promise<Uint8Array | undefined>;
  /** Returns the time, in milliseconds since 1970. */
  readonly now: () => number;
}

/** Verified target of a release, with the id of the centre that signed it. */
export interface VerifiedTarget extends ReleaseTarget {
  readonly centre: string;
}

/** Metadata that a site has stored. */
export interface KnownMetadata {
  /**
   * Versions of the root, the targets and the snapshot, in this order. The list ends before the
   * first file that is missing or damaged.
   */
  readonly versions: readonly number[];
  readonly files: readonly Uint8Array[];
}

/** Metadata that were in the store when an update began. */
interface StoredMetadata {
  readonly files: ReadonlyMap<string, Uint8Array>;
  /**
   * Digest of the root metadata that the site trusted when it stored these files (see `#epochOf`).
   * If the digest changes meanwhile, the site has moved to another centre.
   */
  readonly epoch: Uint8Array | undefined;
}

/** Site's client of the TUF metadata repository of its centre. */
export class TufClient {
  readonly #options: TufClientOptions;

  constructor(options: TufClientOptions) {
    this.#options = options;
  }

  /**
   * Updates the metadata and returns the verified target of a release.
   * @param given - metadata files that the centre has already sent. The client fetches the other
   * files
   * @throws EdgeError ERR_BUNDLE_SIGNATURE, ERR_BUNDLE_CENTRE, ERR_BUNDLE_OLD, ERR_BUNDLE_EXPIRED,
   * ERR_BUNDLE_CONTENT, ERR_SITE_NOT_JOINED, ERR_SITE_LINK
   */
  async target(ring: string, version: number, given?: MetadataFiles): Promise<VerifiedTarget> {
    return this.#inScratch((scratch) =>
      this.#update(scratch, targetPath(ring, version), { ring, version }, given),
    );
  }

  /** Returns the root metadata that the site trusts, or `undefined` if it has none. */
  async trustedRoot(): Promise<Uint8Array | undefined> {
    const { rows } = this.#options;
    const joined = await this.#options.joinedRoot();
    if (joined === undefined) return undefined;
    const former = (await rows.get(joinedKey))?.value;
    if (former === undefined || !this.#epochOf(joined).equals(former)) return joined;
    return (await rows.get(fileKey('root.json')))?.value ?? joined;
  }

  /**
   * Reads the later root metadata of the centre, and returns the root metadata that the site
   * trusts. If the centre cannot be reached, returns the metadata that the site trusted before.
   */
  async updateRoot(): Promise<Uint8Array | undefined> {
    if ((await this.#options.joinedRoot()) !== undefined) {
      await this.#inScratch((scratch) => this.#updateRoots(scratch));
    }
    return this.trustedRoot();
  }

  async #inScratch<T>(work: (scratch: string) => Promise<T>): Promise<T> {
    const { directory } = this.#options;
    await makeDirectory(directory, 0o700);
    const scratch = await mkdtemp(path.join(directory, 'tuf-'));
    try {
      return await work(scratch);
    } finally {
      await rm(scratch, { recursive: true, force: true });
    }
  }

  async #update(
    scratch: string,
    target: string,
    release: Pick<ReleaseTarget, 'ring' | 'version'>,
    given: MetadataFiles | undefined,
  ): Promise<VerifiedTarget> {
    const before = await this.#fill(scratch);
    const { updater, fetcher } = await this.#updater(scratch, given);
    let found: TargetFile | undefined;
    try {
      await updater.refresh();
      found = await updater.getTargetInfo(target);
    } catch (error) {
      // A newer root may revoke keys, so store it even if the update failed.
      await this.#store(scratch, before, ['root.json']);
      throw await this.#explain(error, fetcher, scratch);
    }
    await this.#store(scratch, before, names);
    const sha256 = found?.hashes.sha256;
    if (found === undefined || sha256 === undefined) {
      throw new EdgeError('ERR_BUNDLE_OLD', `the metadata of the centre do not contain ${target}`);
    }
    if (found.length > bundleBounds.manifestBytes) {
      throw new EdgeError('ERR_BUNDLE_CONTENT', 'the manifest exceeds the maximum size');
    }
    const { centre } = await readRoot(await readFile(path.join(scratch, 'root.json')));
    return { ...release, length: found.length, sha256, centre };
  }

  /**
   * Returns the stored metadata from which the site and the centre can build the compression
   * dictionary of an update.
   */
  async known(): Promise<KnownMetadata> {
    const stored = await this.#stored();
    const versions: number[] = [];
    const files: Uint8Array[] = [];
    for (const role of knownRoles) {
      const bytes = stored.get(`${role}.json`);
      const version = bytes && versionOf(bytes);
      if (bytes === undefined || version === undefined) break;
      versions.push(version);
      files.push(bytes);
    }
    return { versions, files };
  }

  async #read(name: string, given: MetadataFiles | undefined): Promise<Uint8Array | undefined> {
    const found = given?.files.get(name);
    if (found !== undefined) return found;
    const root = Number(/^(\d+)\.root\.json$/.exec(name)?.[1] ?? 0);
    if (given !== undefined && root > given.root) return undefined;
    return this.#options.fetch(name);
  }

  async #updateRoots(scratch: string): Promise<void> {
    const before = await this.#fill(scratch);
    const { updater } = await this.#updater(scratch, undefined);
    await updater.refresh().catch(() => {
      // The roots are read first. Before the first release, the update then fails.
    });
    await this.#store(scratch, before, ['root.json']);
  }

  async #updater(
    scratch: string,
    given: MetadataFiles | undefined,
  ): Promise<{ updater: Updater; fetcher: Fetcher }> {
    const fetcher = await createFetcher((name) => this.#read(name, given));
    const { Updater } = await import('tuf-js');
    const updater = new Updater({
      metadataDir: scratch,
      targetDir: scratch,
      metadataBaseUrl: baseUrl,
      fetcher,
      config: {
        maxRootRotations: 256,
        maxDelegations: 1,
        rootMaxLength: maxMetadataBytes,
        timestampMaxLength: 16_384,
        snapshotMaxLength: maxMetadataBytes,
        targetsMaxLength: maxMetadataBytes,
      },
    });
    useClock(updater, this.#options.now());
    return { updater, fetcher };
  }

  /**
   * Returns a digest of the root metadata that the site received when it joined, and of
   * `trustEpoch`. If the digest changes, the site no longer trusts its stored metadata.
   */
  #epochOf(joined: Uint8Array): Buffer {
    const epoch = this.#options.trustEpoch?.() ?? 0;
    const hash = createHash('sha256').update(joined);
    return (epoch === 0 ? hash : hash.update(`${epoch}`)).digest();
  }

  /** Writes the stored metadata to the temporary directory. */
  async #fill(scratch: string): Promise<StoredMetadata> {
    const files = await this.#stored();
    for (const [name, value] of files) {
      await writeFile(path.join(scratch, name), value, { mode: 0o600 });
    }
    return { files, epoch: (await this.#options.rows.get(joinedKey))?.value };
  }

  /**
   * Returns the stored metadata files by name. After the site has joined or changed its centre, the
   * first call replaces them by the root metadata of the centre.
   * @throws EdgeError ERR_SITE_NOT_JOINED if the site has not joined
   */
  async #stored(): Promise<ReadonlyMap<string, Uint8Array>> {
    const { rows, joinedRoot } = this.#options;
    const joined = await joinedRoot();
    const former = (await rows.get(joinedKey))?.value;
    const digest = joined && this.#epochOf(joined);
    if (joined === undefined || digest === undefined) {
      const problem = 'the site has no trusted root: join the site with a ticket of its centre';
      throw new EdgeError('ERR_SITE_NOT_JOINED', problem);
    }
    if (former === undefined || !digest.equals(former)) {
      await rows.write([
        { op: 'delete-prefix', prefix: ['bundle', 'tuf'] },
        { op: 'put', key: fileKey('root.json'), value: joined },
        { op: 'put', key: joinedKey, value: digest },
      ]);
    }
    const files = new Map<string, Uint8Array>();
    for (const name of names) {
      const value = (await rows.get(fileKey(name)))?.value;
      if (value !== undefined) files.set(name, value);
    }
    return files;
  }

  /**
   * Stores changed files of the temporary directory in one transaction.
   * @throws EdgeError ERR_SITE_LINK if the site has another centre now
   */
  async #store(
    scratch: string,
    { files: before, epoch }: StoredMetadata,
    stored: readonly string[],
  ): Promise<void> {
    const joined = await this.#options.joinedRoot();
    if (joined === undefined || epoch === undefined || !this.#epochOf(joined).equals(epoch)) {
      throw new EdgeError('ERR_SITE_LINK', 'the site has moved to another centre in the meantime');
    }
    const operations: StateOperation[] = [];
    for (const name of stored) {
      const value = await ifPresent(readFile(path.join(scratch, name)));
      const former = before.get(name);
      const isChanged = value !== undefined && !(former && value.equals(former));
      if (isChanged) operations.push({ op: 'put', key: fileKey(name), value });
    }
    if (operations.length > 0) await this.#options.rows.write(operations);
  }

  /**
   * Converts an error of tuf-js to an `EdgeError` by its message, because tuf-js wraps errors and
   * does not keep their classes.
   */
  async #explain(error: unknown, fetcher: Fetcher, scratch: string): Promise<unknown> {
    if (fetcher.failure !== undefined) return fetcher.failure;
    if (error instanceof EdgeError) return error;
    const text = errorMessage(error);
    const options = { cause: error };
    if (/is expired/.test(text)) {
      const problem = `${text}; the clock of the site shows ${new Date(this.#options.now()).toISOString()}`;
      return new EdgeError('ERR_BUNDLE_EXPIRED', problem, options);
    }
    if (/less than current version|doesn't match timestamp|does not match snapshot/.test(text)) {
      return new EdgeError('ERR_BUNDLE_OLD', text, options);
    }
    if (/Max length reached|not found/.test(text)) {
      return new EdgeError('ERR_BUNDLE_CONTENT', `metadata of the centre: ${text}`, options);
    }
    if (await isForeign(fetcher.last, scratch)) {
      const problem =
        'another centre signed the metadata, not the centre that this site has joined';
      return new EdgeError('ERR_BUNDLE_CENTRE', problem, options);
    }
    return new EdgeError('ERR_BUNDLE_SIGNATURE', `metadata of the centre: ${text}`, options);
  }
}

/** Returns the version of a metadata file, or `undefined` if the file is damaged. */
function versionOf(bytes: Uint8Array): number | undefined {
  try {
    const version: unknown = JSON.parse(Buffer.from(bytes).toString('utf8')).signed.version;
    return typeof version === 'number' && Number.isSafeInteger(version) && version > 0
      ? version
      : undefined;
  } catch {
    return undefined;
  }
}

/** Returns whether metadata have signatures, but none by a key in the trusted root. */
async function isForeign(bytes: Uint8Array | undefined, scratch: string): Promise<boolean> {
  const trusted = await ifPresent(readFile(path.join(scratch, 'root.json')));
  if (bytes === undefined || trusted === undefined) return false;
  try {
    const known = new Set(Object.keys((await readRoot(trusted)).metadata.signed.keys));
    const signatures: unknown = JSON.parse(Buffer.from(bytes).toString('utf8')).signatures;
    if (!Array.isArray(signatures) || signatures.length === 0) return false;
    return signatures.every((it) => !known.has(String(Object(it).keyid)));
  } catch {
    return false;
  }
}

/** Sets the clock of an updater to the time of the master. tuf-js has no option for this. */
function useClock(updater: object, now: number): void {
  const trusted: unknown = Reflect.get(updater, 'trustedSet');
  if (typeof trusted !== 'object' || trusted === null || !('referenceTime' in trusted)) {
    throw new EdgeError(
      'ERR_SITE_STATE',
      'cannot set the clock of tuf-js: this version has no reference time; install the version in package-lock.json',
    );
  }
  Reflect.set(trusted, 'referenceTime', new Date(now));
}

/** Source from which the updater of tuf-js reads metadata files. */
interface Fetcher extends InstanceType<typeof import('tuf-js').BaseFetcher> {
  /** Metadata file that was fetched last. */
  readonly last: Uint8Array | undefined;
  /** Error with which a fetch failed, or `undefined`. */
  readonly failure: unknown;
}

async function createFetcher(read: TufClientOptions['fetch']): Promise<Fetcher> {
  const { BaseFetcher } = await import('tuf-js');
  const { DownloadHTTPError } = await import('tuf-js/dist/error.js');
  class LinkFetcher extends BaseFetcher implements Fetcher {
    last: Uint8Array | undefined;
    failure: unknown;

    override async fetch(url: string): Promise<ReadableStream<Uint8Array<ArrayBuffer>>> {
      const name = url.slice(baseUrl.length + 1);
      if (!metadataName.test(name)) throw new DownloadHTTPError('not found', 404);
      const bytes = await read(name).catch((error: unknown) => {
        this.failure = error;
        throw error;
      });
      if (bytes === undefined) throw new DownloadHTTPError('not found', 404);
      this.last = bytes;
      return new ReadableStream({
        start: (controller) => {
          controller.enqueue(new Uint8Array(bytes));
          controller.close();
        },
      });
    }
  }
  return new LinkFetcher();
}
