/** The master's `log_file`. */
import { closeSync, existsSync, fchownSync, openSync, writeSync } from 'node:fs';
import path from 'node:path';
import type { Account } from './accounts.ts';
import { makeFolder } from './folders.ts';

/**
 * Opens a log file to append to; what has to be made, folder and file, belongs to `owner`.
 * @returns the file's descriptor
 */
export function openLogFile(file: string, owner: Account | undefined): number {
  const isNew = !existsSync(file);
  makeFolder(path.dirname(file), 0o750, owner);
  const descriptor = openSync(file, 'a', 0o640);
  if (isNew && owner !== undefined) fchownSync(descriptor, owner.uid, owner.gid);
  return descriptor;
}

/** A log file that can be moved away while it is written to. */
export class LogFile {
  readonly #file: string;
  #descriptor: number;

  /** @throws the system's error when the file cannot be opened */
  constructor(file: string, owner?: Account) {
    this.#file = file;
    this.#descriptor = openLogFile(file, owner);
  }

  write(line: string): void {
    try {
      writeSync(this.#descriptor, line);
    } catch {
      // A full disk costs lines of the log, not the master.
    }
  }

  /** Goes on in a file of the same name. @throws the system's error; the old one stays in use */
  reopen(): void {
    const next = openLogFile(this.#file, undefined);
    closeSync(this.#descriptor);
    this.#descriptor = next;
  }

  close(): void {
    closeSync(this.#descriptor);
  }
}
