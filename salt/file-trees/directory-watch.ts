/** Watches directories for added and removed names. */

import { type FSWatcher, watch } from 'node:fs';

interface Watched {
  readonly identity: string;
  readonly watcher: FSWatcher;
}

/**
 * Reports when a name is added to or removed from one of a set of directories. Each directory has
 * its own watcher, because the `recursive` option of Node.js reads every directory a second time
 * and does not follow links.
 */
export class DirectoryWatch {
  readonly #onChange: () => void;
  readonly #onRefused: (error: unknown) => void;
  readonly #watched = new Map<string, Watched>();
  #isClosed = false;

  /** @param onRefused - called if the operating system cannot create another watcher */
  constructor(onChange: () => void, onRefused: (error: unknown) => void) {
    this.#onChange = onChange;
    this.#onRefused = onRefused;
  }

  /**
   * Watches a directory until `keepOnly` is called with directories that do not include it.
   * @param identity - identifier of the directory. If a directory was deleted and created again at
   * the same path, the new directory has another identifier
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

  /** Closes the watchers of all directories that `directories` does not contain. */
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
