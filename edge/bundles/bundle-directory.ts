/**
 * Bundles on the disk of a site. Each bundle has its own directory, whose files never change. The
 * symbolic link `current` points to the bundle in use. The file `switch.json` exists until the
 * bundle in use has passed its check.
 */

import { createHash, hash } from 'node:crypto';
import { mkdir, open, readdir, readFile, readlink, rename, rm, symlink } from 'node:fs/promises';
import path from 'node:path';
import type { Readable } from 'node:stream';
import Type, { type Static, type TSchema } from 'typebox';
import {
  type BeforeStep,
  compileSchema,
  ifPresent,
  isMissing,
  makeDirectory,
  readTextIfPresent,
  syncDirectory,
  syncFile,
  writeFileAtomically,
} from '#runtime';
import { EdgeError } from '../errors.ts';
import { type BundleFile, bundleBounds, type Manifest, shareManifest } from './manifest.ts';
import { packedFiles } from './pack-content.ts';
import { isSmall, type ReusableFile, SmallFiles } from './small-files.ts';

const Version = Type.Integer({ minimum: 0 });

const SwitchSchema = Type.Object({
  /** Version of the bundle that was in use before the switch, or 0 if there was none. */
  from: Version,
  to: Version,
  /** Number of times that the master has started with the new bundle. */
  starts: Type.Integer({ minimum: 0 }),
  /** Minions whose pillar had no errors while the former bundle was in use. */
  minions: Type.Array(Type.String()),
});

/** Switch to another bundle. The switch is pending until the new bundle has passed its check. */
export type PendingSwitch = Readonly<Static<typeof SwitchSchema>>;

const FailureSchema = Type.Object({
  version: Version,
  code: Type.String(),
  message: Type.String(),
});

/**
 * Version of a bundle that the site has refused, with the reason. The site does not install this
 * version again.
 */
export type BundleFailure = Readonly<Static<typeof FailureSchema>>;

/**
 * Number of bundle versions that are reserved for each generation. A site begins a new generation
 * when it changes to a centre with another id, because versions of different centres cannot be
 * compared.
 */
export const versionsPerGeneration = 2 ** 32;

/** Bundle whose files are complete on the disk of the site. */
export interface InstalledBundle {
  /**
   * Version that the centre assigned to the bundle, plus {@link versionsPerGeneration} for each
   * earlier change of the site to a centre with another id.
   */
  readonly version: number;
  /** SHA-256 digest of the manifest, in hexadecimal digits. */
  readonly sha256: string;
  readonly manifestBytes: Buffer;
  readonly manifest: Manifest;
}

/** Bundle to install. The caller has already verified its manifest. */
export interface NewBundle {
  /**
   * Version under which the site installs the bundle, see {@link InstalledBundle.version}. Default:
   * the version in the manifest.
   */
  readonly version?: number;
  readonly manifestBytes: Buffer;
  readonly manifest: Manifest;
  readonly from: InstalledBundle | undefined;
  /**
   * Returns a stream of the files that the former bundle lacks, one after the other, in the order
   * of the manifest.
   */
  readonly contents: () => Readable;
}

/** State of the last switch to a new bundle, as the master finds it when it starts. */
export type RecoveredSwitch =
  | { readonly kind: 'none' }
  /** The new bundle is in use and must be checked. */
  | { readonly kind: 'pending'; readonly pending: PendingSwitch }
  /**
   * The former bundle is in use again, but the master has loaded the new bundle and must restart.
   */
  | { readonly kind: 'reverted'; readonly failure: BundleFailure };

/** Directory of the bundles of a site. Installs bundles, and switches from one to another. */
export class BundleDirectory {
  readonly directory: string;
  readonly #bundles: string;
  readonly #beforeStep: BeforeStep;

  /**
   * @param directory - directory of the site's state, `<state_dir>/site`
   * @param beforeStep - called before each file operation, so that tests can interrupt it
   */
  constructor(directory: string, beforeStep: BeforeStep = () => {}) {
    this.directory = directory;
    this.#bundles = path.join(directory, 'bundles');
    this.#beforeStep = beforeStep;
  }

  /** Returns the path of the directory for the bundle with this version. */
  pathOf(version: number): string {
    return path.join(this.#bundles, String(version));
  }

  /** Returns the version of the bundle in use, or 0 if the site uses none. */
  async currentVersion(): Promise<number> {
    try {
      const target = await readlink(path.join(this.directory, 'current'));
      return Number(/^bundles\/(\d{1,16})$/.exec(target)?.[1] ?? 0);
    } catch (error) {
      if (isMissing(error)) return 0;
      throw error;
    }
  }

  /**
   * Returns the installed bundle with this version, or `undefined` if it does not exist.
   * @throws EdgeError ERR_BUNDLE_CONTENT, ERR_BUNDLE_PATH if its manifest is damaged
   */
  async find(version: number): Promise<InstalledBundle | undefined> {
    if (version === 0) return undefined;
    const file = path.join(this.pathOf(version), 'manifest.json');
    const manifestBytes = await ifPresent(readFile(file));
    if (manifestBytes === undefined) return undefined;
    const sha256 = hash('sha256', manifestBytes);
    return { version, sha256, ...shareManifest(sha256, manifestBytes) };
  }

  /**
   * Writes a bundle to its directory. The directory gets its final name after all files are
   * verified and on disk.
   * @throws EdgeError ERR_BUNDLE_CONTENT if the files do not match the manifest
   */
  async install({ manifestBytes, manifest, from, contents, ...rest }: NewBundle): Promise<void> {
    const { version = manifest.version } = rest;
    const { files } = manifest;
    const incomplete = `${this.pathOf(version)}.new`;
    this.#beforeStep('remove an incomplete directory');
    await rm(incomplete, { recursive: true, force: true });
    this.#beforeStep('create the directory');
    await makeDirectory(this.#bundles, 0o700);
    await mkdir(incomplete, { mode: 0o700 });
    const directories = await this.#createDirectories(incomplete, files);
    const packed = packedFiles(from?.manifest, manifest);
    if (packed.length > 0) await this.#unpack(incomplete, packed, contents());
    await this.#reuse(incomplete, manifest, from, packed);
    this.#beforeStep('write the manifest');
    await writeDurably(path.join(incomplete, 'manifest.json'), manifestBytes, 0o600);
    for (const directory of directories) {
      this.#beforeStep('synchronise a directory');
      await syncDirectory(directory);
    }
    this.#beforeStep('remove a former directory of the version');
    await rm(this.pathOf(version), { recursive: true, force: true });
    this.#beforeStep('rename the directory');
    await rename(incomplete, this.pathOf(version));
    this.#beforeStep('synchronise the parent');
    await syncDirectory(this.#bundles);
  }

  /**
   * Switches to the installed bundle with this version. The switch is pending until {@link commit}
   * or {@link revert} is called.
   * @param minions - minions whose pillar had no errors with the former bundle
   */
  async switchTo(version: number, minions: readonly string[]): Promise<void> {
    const from = await this.currentVersion();
    const pending: PendingSwitch = { from, to: version, starts: 0, minions: [...minions] };
    this.#beforeStep('write switch.json');
    await this.#write('switch.json', pending);
    await this.#setCurrent(version);
  }

  /** Returns the pending switch, or `undefined` if no switch is pending. */
  async pending(): Promise<PendingSwitch | undefined> {
    return this.#read('switch.json', SwitchSchema);
  }

  /**
   * Confirms the pending switch. Deletes all bundles except the bundle in use and the one before
   * it.
   */
  async commit(): Promise<void> {
    const pending = await this.pending();
    this.#beforeStep('remove switch.json');
    await this.#remove('switch.json');
    const kept = new Set([await this.currentVersion(), pending?.from ?? 0]);
    for (const name of (await ifPresent(readdir(this.#bundles))) ?? []) {
      if (kept.has(Number(name))) continue;
      this.#beforeStep('remove an old bundle');
      await rm(path.join(this.#bundles, name), { recursive: true, force: true });
    }
  }

  /** Switches back to the former bundle, and records why the site refused the new one. */
  async revert(failure: BundleFailure): Promise<void> {
    const pending = await this.pending();
    await this.fail(failure);
    if (pending === undefined) return;
    await this.#setCurrent(pending.from);
    this.#beforeStep('remove switch.json after a failure');
    await this.#remove('switch.json');
  }

  /** Records that the site has refused a bundle, and why. */
  async fail(failure: BundleFailure): Promise<void> {
    this.#beforeStep('write failed.json');
    await this.#write('failed.json', { ...failure, message: failure.message.slice(0, 2000) });
  }

  /**
   * Returns the version of the bundle that the site refused last, with the reason. Returns
   * `undefined` if the site has refused none.
   */
  async failure(): Promise<BundleFailure | undefined> {
    return this.#read('failed.json', FailureSchema);
  }

  /**
   * Continues a pending switch after a start of the master. If an earlier start already used the
   * new bundle, and the master ended before the check of this bundle, the site returns to the
   * former bundle.
   */
  async recover(): Promise<RecoveredSwitch> {
    const pending = await this.pending();
    if (pending === undefined) return { kind: 'none' };
    const { from, to, starts } = pending;
    const failure = await this.failure();
    const isRefused = failure?.version === to;
    if ((await this.currentVersion()) !== to && !isRefused) {
      // The previous process ended before it replaced the link.
      this.#beforeStep('remove switch.json of a switch that was not made');
      await this.#remove('switch.json');
      return { kind: 'none' };
    }
    if (!isRefused && starts === 0) {
      this.#beforeStep('count the start');
      await this.#write('switch.json', { ...pending, starts: 1 });
      return { kind: 'pending', pending };
    }
    const reason: BundleFailure =
      isRefused && failure !== undefined
        ? failure
        : {
            version: to,
            code: 'ERR_BUNDLE_CHECK',
            message: `the master ended before version ${to} passed its check; version ${from} is in use`,
          };
    await this.revert(reason);
    return { kind: 'reverted', failure: reason };
  }

  /**
   * Changes the symbolic link `current`, so that it points to the bundle with this version. Removes
   * the link if the version is 0.
   */
  async #setCurrent(version: number): Promise<void> {
    const current = path.join(this.directory, 'current');
    const next = path.join(this.directory, 'current.new');
    if (version === 0) {
      this.#beforeStep('remove the link');
      await rm(current, { force: true });
    } else {
      this.#beforeStep('remove an unused link');
      await rm(next, { force: true });
      this.#beforeStep('create the link');
      await symlink(`bundles/${version}`, next);
      this.#beforeStep('replace the link');
      await rename(next, current);
    }
    this.#beforeStep('synchronise the link');
    await syncDirectory(this.directory);
  }

  async #createDirectories(
    incomplete: string,
    files: readonly BundleFile[],
  ): Promise<readonly string[]> {
    const directories = new Set([incomplete]);
    for (const { path: inner } of files) {
      const segments = inner.split('/').slice(0, -1);
      for (let count = 1; count <= segments.length; count++) {
        const directory = path.join(incomplete, ...segments.slice(0, count));
        if (directories.has(directory)) continue;
        this.#beforeStep('create a directory of files');
        await mkdir(directory, { mode: 0o700 });
        directories.add(directory);
      }
    }
    return [...directories];
  }

  /** Writes the contents of a pack to files. Never writes more bytes than the manifest states. */
  async #unpack(incomplete: string, files: readonly BundleFile[], stream: Readable): Promise<void> {
    const chunks = new ChunkReader(stream);
    const small = new SmallFiles();
    try {
      for (const file of files) {
        this.#beforeStep('write a file');
        await writeContent(path.join(incomplete, file.path), file, chunks, small);
      }
      if ((await chunks.next(1)) !== undefined)
        throw refuse('the pack contains data after its last file');
    } finally {
      stream.destroy();
    }
    // After all files are written, the file system can write most of them at once.
    for (const { path: inner } of files) {
      this.#beforeStep('synchronise a file');
      await syncFile(path.join(incomplete, inner));
    }
  }

  /**
   * Adds the files that the pack lacks. A pack omits files whose content also exists in the former
   * bundle or in another file of the new bundle.
   */
  async #reuse(
    incomplete: string,
    manifest: Manifest,
    from: InstalledBundle | undefined,
    packed: readonly BundleFile[],
  ): Promise<void> {
    const written = new Set(packed.map((it) => it.path));
    const small = new SmallFiles();
    const sources = new Map<string, ReusableFile>();
    for (const { sha256, path: inner, executable } of from?.manifest.files ?? []) {
      sources.set(sha256, { file: path.join(this.pathOf(from?.version ?? 0), inner), executable });
    }
    for (const { sha256, path: inner, executable } of packed) {
      sources.set(sha256, { file: path.join(incomplete, inner), executable });
    }
    for (const { path: inner, sha256, executable } of manifest.files) {
      if (written.has(inner)) continue;
      const source = sources.get(sha256);
      if (source === undefined) throw refuse(`${inner} is missing`);
      if ((await small.digest(source.file)) !== sha256) {
        throw refuse(`${inner} of the former bundle is damaged`);
      }
      this.#beforeStep('reuse a file');
      await small.reuse(source, path.join(incomplete, inner), executable);
    }
  }

  #write(name: string, value: object): Promise<void> {
    return writeFileAtomically(path.join(this.directory, name), JSON.stringify(value), 0o600);
  }

  async #remove(name: string): Promise<void> {
    await rm(path.join(this.directory, name), { force: true });
    await syncDirectory(this.directory);
  }

  async #read<S extends TSchema>(name: string, schema: S): Promise<Static<S> | undefined> {
    const text = await readTextIfPresent(path.join(this.directory, name));
    if (text === undefined) return undefined;
    try {
      const check = compileSchema<TSchema>(schema);
      return check.Parse(JSON.parse(text)) as Static<S>; // parsed by this schema
    } catch (cause) {
      throw new EdgeError('ERR_SITE_STATE', `${name} is damaged; remove it`, { cause });
    }
  }
}

function refuse(problem: string): EdgeError {
  return new EdgeError('ERR_BUNDLE_CONTENT', `bundle refused: ${problem}`);
}

/** Reads a stream in chunks. The caller chooses the maximum size of each chunk. */
class ChunkReader {
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(stream: Readable) {
    // The iterator handles errors from its first step on. The stream can fail before it, for
    // example while a file is opened, and an unhandled error would end the process.
    stream.on('error', () => {});
    this.#chunks = stream[Symbol.asyncIterator]();
  }

  /**
   * Returns at least one byte and at most `maxBytes`, or `undefined` at the end of the stream.
   * @throws EdgeError ERR_BUNDLE_CONTENT if the compressed data are damaged
   */
  async next(maxBytes: number): Promise<Buffer | undefined> {
    while (this.#rest.length === 0) {
      let next: IteratorResult<Buffer>;
      try {
        next = await this.#chunks.next();
      } catch (cause) {
        throw new EdgeError('ERR_BUNDLE_CONTENT', 'the pack cannot be decompressed', { cause });
      }
      if (next.done === true) return undefined;
      this.#rest = next.value;
    }
    const piece = this.#rest.subarray(0, maxBytes);
    this.#rest = this.#rest.subarray(piece.length);
    return piece;
  }
}

/**
 * Reads a manifest from a stream, and verifies its size and digest.
 * @throws EdgeError ERR_BUNDLE_CONTENT if they do not match
 */
export async function readContent(
  stream: Readable,
  expected: { readonly length: number; readonly sha256: string },
): Promise<Buffer> {
  if (expected.length > bundleBounds.manifestBytes) throw refuse('the manifest is too large');
  const chunks = new ChunkReader(stream);
  const pieces: Buffer[] = [];
  let missing = expected.length;
  try {
    for (;;) {
      const piece = await chunks.next(missing + 1);
      if (piece === undefined) break;
      pieces.push(piece);
      missing -= piece.length;
      if (missing < 0) throw refuse('the manifest is longer than the metadata permit');
    }
  } finally {
    stream.destroy();
  }
  const bytes = Buffer.concat(pieces);
  if (missing === 0 && hash('sha256', bytes) === expected.sha256) return bytes;
  throw refuse('the manifest does not match the metadata');
}

async function writeContent(
  file: string,
  { length, sha256, executable, path: inner }: BundleFile,
  chunks: ChunkReader,
  small: SmallFiles,
): Promise<void> {
  const mode = executable ? 0o700 : 0o600;
  const hash = createHash('sha256');
  const read = async (write: (piece: Buffer) => unknown): Promise<void> => {
    for (let missing = length; missing > 0; ) {
      const piece = await chunks.next(missing);
      if (piece === undefined) throw refuse(`${inner} is incomplete`);
      hash.update(piece);
      await write(piece);
      missing -= piece.length;
    }
    if (hash.digest('hex') !== sha256) throw refuse(`${inner} does not match its digest`);
  };
  if (isSmall(length)) {
    const pieces: Buffer[] = [];
    await read((piece) => pieces.push(piece));
    await small.write(file, pieces, mode);
    return;
  }
  const handle = await open(file, 'wx', mode);
  try {
    await read((piece) => handle.writeFile(piece));
  } finally {
    await handle.close();
  }
}

async function writeDurably(file: string, content: Uint8Array, mode: number): Promise<void> {
  const handle = await open(file, 'wx', mode);
  try {
    await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
}
