/**
 * Reads, links and writes the files of a bundle. A release may have thousands of small files. For a
 * small file, an asynchronous call costs more than the access to the file. Small files are
 * therefore read, linked and written synchronously, in slices of a few milliseconds.
 */

import { hash } from 'node:crypto';
import { closeSync, fstatSync, linkSync, openSync, readSync, writeSync } from 'node:fs';
import { copyFile, open } from 'node:fs/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { hashFile, ifPresent } from '#runtime';

/** Existing file whose content a new file needs. The new file becomes a link to it, or a copy. */
export interface ReusableFile {
  readonly file: string;
  readonly executable: boolean;
}

/** Maximum size of a file that is read or written synchronously, in bytes. */
const smallBytes = 65_536;

/** Duration of synchronous work after which other tasks of the process may run, in milliseconds. */
const sliceMs = 5;

/**
 * Reads, links and writes files. Pauses after some milliseconds of work, so that other tasks can
 * run.
 */
export class SmallFiles {
  /**
   * Buffer for the content of a small file. It has one more byte than the maximum size, to detect a
   * file that has grown.
   */
  readonly #content = Buffer.allocUnsafe(smallBytes + 1);
  #beganAt = performance.now();

  /** Returns the SHA-256 digest of a file in hexadecimal form, or `undefined` if it is missing. */
  async digest(file: string): Promise<string | undefined> {
    await this.#pause();
    return ifPresent(this.#digestOf(file));
  }

  /**
   * Creates a hard link to a file. Copies the file if its mode differs or hard links are not
   * possible.
   */
  async reuse(source: ReusableFile, target: string, executable: boolean): Promise<void> {
    if (source.executable === executable && isLinked(source.file, target)) return;
    await copyFile(source.file, target);
    const handle = await open(target, 'r+');
    try {
      await handle.chmod(executable ? 0o700 : 0o600);
      await handle.sync();
    } finally {
      await handle.close();
    }
  }

  /**
   * Creates a file. The content is certainly on disk only after a call of {@link syncFile}.
   * @param mode - permissions of the file
   */
  async write(file: string, pieces: readonly Buffer[], mode: number): Promise<void> {
    await this.#pause();
    const descriptor = openSync(file, 'wx', mode);
    try {
      for (const piece of pieces) writeWhole(descriptor, piece);
    } finally {
      closeSync(descriptor);
    }
  }

  async #pause(): Promise<void> {
    if (performance.now() - this.#beganAt < sliceMs) return;
    await nextTurn();
    this.#beganAt = performance.now();
  }

  async #digestOf(file: string): Promise<string> {
    const content = this.#readSmall(file);
    if (content === undefined) return (await hashFile(file, 'sha256')).toString('hex');
    return hash('sha256', content);
  }

  /** Returns the content of a file, or `undefined` if the file is large. */
  #readSmall(file: string): Buffer | undefined {
    const descriptor = openSync(file, 'r');
    try {
      if (fstatSync(descriptor).size > smallBytes) return undefined;
      for (let length = 0; length <= smallBytes; ) {
        const missing = this.#content.length - length;
        const read = readSync(descriptor, this.#content, length, missing, null);
        if (read === 0) return this.#content.subarray(0, length);
        length += read;
      }
      return undefined;
    } finally {
      closeSync(descriptor);
    }
  }
}

/**
 * Returns whether a file of this size is small. Small files are written in one step, larger files
 * piece by piece.
 */
export function isSmall(bytes: number): boolean {
  return bytes <= smallBytes;
}

function writeWhole(descriptor: number, piece: Buffer): void {
  for (let written = 0; written < piece.length; ) {
    written += writeSync(descriptor, piece, written);
  }
}

function isLinked(source: string, target: string): boolean {
  try {
    linkSync(source, target);
    return true;
  } catch {
    return false;
  }
}
