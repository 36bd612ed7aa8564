/**
 * Salt's PKI directory: a file for each key, named after the minion, in a directory for each
 * state [WIRE 7.4]. Every change is one rename or one removal, so a process that is killed
 * leaves the key as it was or as it was to be.
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
import { codeOf, isMissing, makeDirectory } from '#runtime';
import type { KeyState } from '../api/index.ts';
import { KeyError } from './key-errors.ts';

/** The content of a key file. */
export interface KeyFile {
  /** PEM text as the minion sent it. */
  readonly pem: string;
  /** When the file was written, in milliseconds since 1970. */
  readonly since: number;
}

/** Where the keys of minions are kept, each under its id in its place. */
export interface KeyFiles {
  /** Ids of a place. */
  list(place: KeyState): Promise<string[]>;
  /** Every key of a place, for the start. @throws KeyError ERR_PKI_DIR */
  readAll(place: KeyState): Map<string, KeyFile> | Promise<Map<string, KeyFile>>;
  read(place: KeyState, id: string): Promise<KeyFile | undefined>;
  /** Durable when it resolves, as the others are. */
  write(place: KeyState, id: string, pem: string): Promise<void>;
  move(from: KeyState, to: KeyState, id: string): Promise<void>;
  remove(place: KeyState, id: string): Promise<void>;
}

/** Directory names. */
export const placeDirectories: Readonly<Record<KeyState, string>> = {
  accepted: 'minions',
  pending: 'minions_pre',
  rejected: 'minions_rejected',
  denied: 'minions_denied',
};

/** All places, in the order in which the one that counts is looked for [WIRE 6.2]. */
export const keyPlaces: readonly KeyState[] = ['rejected', 'accepted', 'pending', 'denied'];

const maxKeyBytes = 65_536;
const temporaryName = /^\.saltbridge-.*\.tmp$/;

/** Reads and writes the files. Ids are taken as checked; what is done at once is the caller's. */
export class PkiDir implements KeyFiles {
  readonly directory: string;

  private constructor(directory: string) {
    this.directory = directory;
  }

  /**
   * Makes what is missing (0700) and removes what a killed process left half-written.
   * @throws KeyError ERR_PKI_DIR
   */
  static async open(directory: string): Promise<PkiDir> {
    return await translate(`${directory} cannot hold keys`, async () => {
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

  /** File names in the directory of a place, but for hidden ones. */
  async list(place: KeyState): Promise<string[]> {
    return await translate('the PKI directory could not be listed', async () => {
      const names = await readdir(this.directoryOf(place));
      return names.filter((name) => !name.startsWith('.'));
    });
  }

  /**
   * Every key of a place. Blocking, and many times faster over thousands of files: for the start,
   * before anybody is served.
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

  /** A key; `undefined` if there is none, or no plain file of a sensible size. */
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

  /** Writes a key in place of whatever is there. Durable when it resolves. */
  async write(place: KeyState, id: string, pem: string): Promise<void> {
    await translate('a key could not be written', async () => {
      // Outside of the directories that salt-key lists.
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

  /** Moves a key in place of whatever is there. Durable when it resolves. */
  async move(from: KeyState, to: KeyState, id: string): Promise<void> {
    await translate('a key could not be moved', async () => {
      await rename(this.#file(from, id), this.#file(to, id));
      await syncDirectory(this.directoryOf(to));
      await syncDirectory(this.directoryOf(from));
    });
  }

  /** Removes a key if it is there. Durable when it resolves. */
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
  // Modes of a directory that Salt made (0700 or 0750) are left as they are.
  if (made.length > 0) await chmod(directory, 0o700);
}

// A link is none of Salt's; a pipe must not be waited for.
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

async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory);
  try {
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
 * Opens a PKI directory, with what watches it.
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
 * Watches the directories of keys, and tells which ids to look at again once it has been quiet
 * for a moment; `undefined`: all. Ends with the function given.
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
