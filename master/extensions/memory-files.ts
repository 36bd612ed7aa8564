import { createHash } from 'node:crypto';
import type { HashType } from '#config';
import {
  type FileLists,
  type FileServerBackend,
  type FileStat,
  type FoundFile,
  noFiles,
} from '../api/index.ts';

/** Maximum length of a path in Linux, in bytes. */
const maxPathBytes = 4096;

/** Normalises a path. Returns `undefined` if it is not the path of a file below a root. */
export function relativePath(place: string): string | undefined {
  if (place.startsWith('/') || place.includes('\0')) return undefined;
  if (Buffer.byteLength(place) > maxPathBytes) return undefined;
  const segments = place.split('/').filter((segment) => segment !== '' && segment !== '.');
  return segments.length === 0 || segments.includes('..') ? undefined : segments.join('/');
}

/**
 * File contents by environment and path, for example `{ base: { '_modules/mine.py': 'def …' } }`.
 * Strings are encoded in UTF-8.
 */
export type MemoryContent = Readonly<Record<string, Readonly<Record<string, string | Uint8Array>>>>;

/**
 * File backend in memory, for services that contain modules and states in their own code. Files can
 * be changed while the backend is in use.
 */
export interface MemoryFiles extends FileServerBackend {
  /**
   * Adds or replaces a file. The caller must not modify the bytes afterwards.
   * @throws TypeError if minions cannot request `path`
   */
  put(saltenv: string, path: string, content: string | Uint8Array): void;
  /** Removes a file, if it exists. */
  remove(saltenv: string, path: string): void;
}

/**
 * Creates a file backend in memory.
 * @throws TypeError if minions cannot request one of the paths
 */
export function createMemoryFiles(content: MemoryContent = {}): MemoryFiles {
  const files = new FilesInMemory();
  for (const [saltenv, paths] of Object.entries(content)) {
    for (const [path, bytes] of Object.entries(paths)) files.put(saltenv, path, bytes);
  }
  return files;
}

interface Environment {
  readonly files: Map<string, MemoryFile>;
  lists: FileLists | undefined;
}

class FilesInMemory implements MemoryFiles {
  readonly name = 'memory';
  readonly #envs = new Map<string, Environment>();

  put(saltenv: string, path: string, content: string | Uint8Array): void {
    if (relativePath(path) !== path)
      throw new TypeError(
        'invalid path: it must be relative and normalised, such as _modules/mine.py',
      );
    const env = this.#envs.get(saltenv) ?? { files: new Map(), lists: undefined };
    env.files.set(path, new MemoryFile(content));
    env.lists = undefined;
    this.#envs.set(saltenv, env);
  }

  remove(saltenv: string, path: string): void {
    const env = this.#envs.get(saltenv);
    if (!env?.files.delete(path)) return;
    env.lists = undefined;
    if (env.files.size === 0) this.#envs.delete(saltenv);
  }

  envs(): readonly string[] {
    return [...this.#envs.keys()];
  }

  async find(path: string, saltenv: string): Promise<FoundFile | undefined> {
    return this.#envs.get(saltenv)?.files.get(path);
  }

  async lists(saltenv: string): Promise<FileLists> {
    const env = this.#envs.get(saltenv);
    if (env === undefined) return noFiles;
    env.lists ??= listsOf([...env.files.keys()]);
    return env.lists;
  }

  async close(): Promise<void> {
    // The backend has no resources to release.
  }
}

class MemoryFile implements FoundFile {
  readonly stat: FileStat;
  readonly #bytes: Uint8Array;
  readonly #hashes = new Map<HashType, string>();

  constructor(content: string | Uint8Array) {
    this.#bytes = typeof content === 'string' ? Buffer.from(content) : content;
    const now = Math.floor(Date.now() / 1000);
    this.stat = {
      mode: 0o100_644,
      inode: 0,
      device: 0,
      links: 1,
      uid: 0,
      gid: 0,
      size: this.#bytes.length,
      accessedAt: now,
      modifiedAt: now,
      changedAt: now,
    };
  }

  async hash(type: HashType): Promise<string> {
    const known = this.#hashes.get(type);
    if (known !== undefined) return known;
    const digest = createHash(type).update(this.#bytes).digest('hex');
    this.#hashes.set(type, digest);
    return digest;
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    return this.#bytes.subarray(offset, offset + length);
  }
}

function listsOf(files: readonly string[]): FileLists {
  const dirs = new Set<string>();
  for (const file of files) {
    for (let end = file.lastIndexOf('/'); end > 0; end = file.lastIndexOf('/', end - 1)) {
      dirs.add(file.slice(0, end));
    }
  }
  return { files: [...files].sort(), dirs: [...dirs].sort(), emptyDirs: [], links: new Map() };
}
