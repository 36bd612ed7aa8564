/** Salt's `pidfile`. */
import {
  closeSync,
  constants,
  fchownSync,
  ftruncateSync,
  openSync,
  readFileSync,
  rmSync,
  writeSync,
} from 'node:fs';
import path from 'node:path';
import type { Account } from './accounts.ts';
import { makeFolder } from './folders.ts';

/**
 * A file that is opened while the process may, and written once the master runs: a master that
 * cannot start beside another one leaves that one's pid alone.
 */
export class PidFile {
  readonly #file: string;
  readonly #descriptor: number;

  /** @throws the system's error when the file cannot be opened */
  constructor(file: string, owner: Account | undefined) {
    makeFolder(path.dirname(file), 0o755, owner);
    this.#file = file;
    this.#descriptor = openSync(file, constants.O_RDWR | constants.O_CREAT, 0o644);
    if (owner !== undefined) fchownSync(this.#descriptor, owner.uid, owner.gid);
  }

  /** Puts this process in. */
  write(): void {
    ftruncateSync(this.#descriptor);
    writeSync(this.#descriptor, String(process.pid), 0);
  }

  /** Takes the file away, unless it is another process's. */
  close(): void {
    closeSync(this.#descriptor);
    try {
      const text = readFileSync(this.#file, 'utf8');
      if (text === '' || text === String(process.pid)) rmSync(this.#file);
    } catch {
      // It is gone, or lies in a folder of root's; the next start writes it anew.
    }
  }
}
