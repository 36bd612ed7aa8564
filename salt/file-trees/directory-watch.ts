/** Watches directories for names that are added or removed. */

import { type FSWatcher, watch } from 'node:fs';

interface Watched {
  readonly identity: string;
  readonly watcher: FSWatcher;
}

/**
 * Reports names that are added to or removed from a set of directories. Each directory has its own
 * watch, because the `recursive` option of Node.js reads every directory a second time and does not
 * follow links.
 */
export class DirectoryWatch {
  readonly #onChange: () => void;
  readonly #onRefused: (error: unknown) => void;
  readonly #watched = new Map<string, Watched>();
  #isClosed = false;

  /** @param onRefused called if the system cannot create another watch */
  constructor(onChange: () => void, onRefused: (error: unknown) => void) {
    this.#onChange = onChange;
    this.#onRefused = onRefused;
  }

  /**
   * Watches a directory until `keepOnly` is called without it.
   * @param identity distinguishes a directory from a later one at the same path
   */
  add(directory: string, identity: string): void {
    const known = this.#watched.get(directory);
    if (this.#isClosed || known?.identity === identity) return;
    known?.watcher.close();
    this.#watched.delete(directory);
    try {
      const watcher = watch(directory, { persistent: false }, (type) => {
        // An event of type `change` reports new file contents. The file lists contain only names.
        if (type === 'rename') this.#onChange();
      });
      watcher.on('error', this.#onChange);
      this.#watched.set(directory, { identity, watcher });
    } catch (error) {
      this.#onRefused(error);
    }
  }

  /** Closes the watches of all other directories. */
  keepOnly(directories: ReadonlyMap<string, unknown>): void {
    for (const [directory, { watcher }] of this.#watched) {
      if (directories.has(directory)) continue;
      watcher.close();
      this.#watched.delete(directory);
    }
  }

  close(): void {
    this.#isClosed = true;
    this.keepOnly(new Map());
  }
}
