/**
 * Salt's PKI directory: one file for each key, named after the minion, in a directory for each
 * state [WIRE 7.4]. Every change is a single rename or removal. So if the process is killed, a key
 * is either unchanged or completely changed.
 */

import { randomUUID } from 'node:crypto';
import {
  closeSync,
  constants,
  fstatSync,
  openSync,
  readdirSync,
  readFileSync,
  watch,
} from 'node:fs';
import { chmod, type FileHandle, open, readdir, rename, rm, unlink } from 'node:fs/promises';
import path from 'node:path';
import { codeOf, isMissing, makeDirectory, syncDirectory } from '#runtime';
import type { KeyState } from '../api/index.ts';
import { KeyError } from './key-errors.ts';

/** Content of a key file. */
export interface KeyFile {
  /** Public key in PEM format, as the minion sent it. */
  readonly pem: string;
  /** Modification time of the file, in milliseconds since 1970. */
  readonly since: number;
}

/** Storage of minions' keys. Each key is identified by its state and the minion id. */
export interface KeyFiles {
  /** Returns the ids with a key in this state. */
  list(place: KeyState): Promise<string[]>;
  /**
   * Returns all keys in this state. Used when the master starts.
   * @throws KeyError ERR_PKI_DIR
   */
  readAll(place: KeyState): Map<string, KeyFile> | Promise<Map<string, KeyFile>>;
  read(place: KeyState, id: string): Promise<KeyFile | undefined>;
  /**
   * Stores a key. When the promise of `write`, `move` or `remove` resolves, the change is on disk.
   */
  write(place: KeyState, id: string, pem: string): Promise<void>;
  move(from: KeyState, to: KeyState, id: string): Promise<void>;
  remove(place: KeyState, id: string): Promise<void>;
}

/** Directory names by state. */
export const placeDirectories: Readonly<Record<KeyState, string>> = {
  accepted: 'minions',
  pending: 'minions_pre',
  rejected: 'minions_rejected',
  denied: 'minions_denied',
};

/** All states, in the order of precedence [WIRE 6.2]. */
export const keyPlaces: readonly KeyState[] = ['rejected', 'accepted', 'pending', 'denied'];

const maxKeyBytes = 65_536;
const temporaryName = /^\.saltbridge-.*\.tmp$/;

/**
 * Key files in a PKI directory. Callers must validate ids, and must not make several changes at the
 * same time.
 */
export class PkiDir implements KeyFiles {
  readonly directory: string;

  private constructor(directory: string) {
    this.directory = directory;
  }

  /**
   * Opens a PKI directory. Creates missing directories (mode 0700) and removes temporary files that
   * a killed process has left.
   * @throws KeyError ERR_PKI_DIR
   */
  static async open(directory: string): Promise<PkiDir> {
    return await translate(`${directory} cannot be used for keys`, async () => {
      await makeDirectory(directory, 0o700);
      for (const name of [...Object.values(placeDirectories), 'minions_autosign']) {
        await makePrivate(path.join(directory, name));
      }
      for (const name of await readdir(directory)) {
        if (temporaryName.test(name)) await rm(path.join(directory, name));
      }
      return new PkiDir(directory);
    });
  }

  directoryOf(place: KeyState): string {
    return path.join(this.directory, placeDirectories[place]);
  }

  /** Returns the file names in the directory of a state, without hidden files. */
  async list(place: KeyState): Promise<string[]> {
    return await translate('the PKI directory could not be listed', async () => {
      const names = await readdir(this.directoryOf(place));
      return names.filter((name) => !name.startsWith('.'));
    });
  }

  /**
   * Returns all keys in a state. The method is synchronous, because that is many times faster for
   * thousands of files. It is used only at the start, before the master serves minions.
   * @throws KeyError ERR_PKI_DIR
   */
  readAll(place: KeyState): Map<string, KeyFile> {
    const directory = this.directoryOf(place);
    const files = new Map<string, KeyFile>();
    try {
      for (const name of readdirSync(directory)) {
        const file = name.startsWith('.') ? undefined : readPlainSync(path.join(directory, name));
        if (file !== undefined) files.set(name, file);
      }
    } catch (cause) {
      throw new KeyError('ERR_PKI_DIR', `${directory} could not be read`, { cause });
    }
    return files;
  }

  /** Returns a key, or `undefined` if it is missing, too large or not a regular file. */
  async read(place: KeyState, id: string): Promise<KeyFile | undefined> {
    return await translate('a key could not be read', async () => {
      const handle = await openPlain(this.#file(place, id));
      if (handle === undefined) return undefined;
      try {
        const stats = await handle.stat();
        if (!stats.isFile() || stats.size > maxKeyBytes) return undefined;
        return { pem: await handle.readFile('utf8'), since: stats.mtimeMs };
      } finally {
        await handle.close();
      }
    });
  }

  /** Writes a key and replaces any existing one. Durable when the promise resolves. */
  async write(place: KeyState, id: string, pem: string): Promise<void> {
    await translate('a key could not be written', async () => {
      // The temporary file is created outside of the directories that `salt-key` lists.
      const temporary = path.join(this.directory, `.saltbridge-${randomUUID()}.tmp`);
      try {
        await writeNew(temporary, pem);
        await rename(temporary, this.#file(place, id));
      } catch (error) {
        await rm(temporary, { force: true });
        throw error;
      }
      await syncDirectory(this.directoryOf(place));
    });
  }

  /**
   * Moves a key to another state, and replaces an existing key there. Durable when the promise
   * resolves.
   */
  async move(from: KeyState, to: KeyState, id: string): Promise<void> {
    await translate('a key could not be moved', async () => {
      await rename(this.#file(from, id), this.#file(to, id));
      await syncDirectory(this.directoryOf(to));
      await syncDirectory(this.directoryOf(from));
    });
  }

  /** Removes a key if it exists. Durable when the promise resolves. */
  async remove(place: KeyState, id: string): Promise<void> {
    await translate('a key could not be removed', async () => {
      try {
        await unlink(this.#file(place, id));
      } catch (error) {
        if (isMissing(error)) return;
        throw error;
      }
      await syncDirectory(this.directoryOf(place));
    });
  }

  #file(place: KeyState, id: string): string {
    return path.join(this.directoryOf(place), id);
  }
}

async function makePrivate(directory: string): Promise<void> {
  const made = await makeDirectory(directory, 0o700);
  // Directories that Salt created retain their modes (0700 or 0750).
  if (made.length > 0) await chmod(directory, 0o700);
}

// Links are not followed, because Salt creates none. Opening must not block, because the file may
// be a named pipe.
const plainFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

function readPlainSync(file: string): KeyFile | undefined {
  let descriptor: number;
  try {
    descriptor = openSync(file, plainFlags);
  } catch (error) {
    if (isMissing(error) || codeOf(error) === 'ELOOP') return undefined;
    throw error;
  }
  try {
    const stats = fstatSync(descriptor);
    if (!stats.isFile() || stats.size > maxKeyBytes) return undefined;
    return { pem: readFileSync(descriptor, 'utf8'), since: stats.mtimeMs };
  } finally {
    closeSync(descriptor);
  }
}

async function openPlain(file: string): Promise<FileHandle | undefined> {
  try {
    return await open(file, plainFlags);
  } catch (error) {
    if (isMissing(error) || codeOf(error) === 'ELOOP') return undefined;
    throw error;
  }
}

async function writeNew(file: string, text: string): Promise<void> {
  const handle = await open(file, 'wx', 0o600);
  try {
    await handle.writeFile(text);
    await handle.chmod(0o644);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function translate<T>(problem: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    throw new KeyError('ERR_PKI_DIR', problem, { cause });
  }
}

const quietMs = 50;

/**
 * Opens a PKI directory with its watcher.
 * @throws KeyError ERR_PKI_DIR
 */
export async function openPkiFiles(directory: string): Promise<{
  readonly files: PkiDir;
  readonly watch: (onDirty: Parameters<typeof watchPkiDir>[1]) => () => void;
}> {
  const files = await PkiDir.open(directory);
  return { files, watch: (onDirty) => watchPkiDir(files, onDirty) };
}

/**
 * Watches the key directories, and reports the changed ids after a short quiet period. It reports
 * `undefined` if any id may have changed. Returns a function that stops watching.
 */
export function watchPkiDir(
  dir: PkiDir,
  onDirty: (ids: readonly string[] | undefined) => void,
): () => void {
  const dirty = new Set<string>();
  let isAllDirty = false;
  let timer: NodeJS.Timeout | undefined;

  const flush = (): void => {
    onDirty(isAllDirty ? undefined : [...dirty]);
    dirty.clear();
    isAllDirty = false;
    timer = undefined;
  };
  const mark = (name: string | null): void => {
    if (name === null) isAllDirty = true;
    else if (!name.startsWith('.')) dirty.add(name);
    timer ??= setTimeout(flush, quietMs).unref();
  };
  const watchers = keyPlaces.map((place) =>
    watch(dir.directoryOf(place), { persistent: false }, (_type, name) => mark(name)).on(
      'error',
      () => mark(null),
    ),
  );
  return () => {
    clearTimeout(timer);
    for (const watcher of watchers) watcher.close();
  };
}
