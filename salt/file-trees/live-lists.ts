/** Lists of the served files, refreshed when a directory changes. */

import type { Logger } from 'pino';
import { type FileLists, noFiles } from '#master';
import { DirectoryWatch } from './directory-watch.ts';
import {
  directoryState,
  maxEntries,
  type Tree,
  type WalkOptions,
  walkRoots,
} from './walk-roots.ts';

/**
 * Delay between a change and the walk of the roots, in milliseconds. A burst of changes, such as a
 * checkout, causes only one walk.
 */
const quietMs = 100;
/** Maximum fraction of the total time that the periodic checks of directories may take. */
const checkShare = 0.02;

/** Options of the lists of one environment. */
interface LiveListsOptions {
  /** Absolute paths of the roots. */
  readonly roots: readonly string[];
  readonly walk: Omit<WalkOptions, 'onDirectory'>;
  /**
   * Interval at which the directories are checked, in milliseconds. The checks find changes that no
   * watch reports.
   */
  readonly checkMs: number;
  readonly log: Logger;
}

/**
 * Up-to-date file lists of one environment. The roots are walked at the start and after a change,
 * once for all callers. Directory watchers report changes. On network file systems, watchers may
 * report nothing, so periodic checks also compare the time stamps of all directories.
 */
export class LiveLists {
  readonly #options: LiveListsOptions;
  readonly #watch: DirectoryWatch;
  #tree: Tree = { lists: noFiles, directories: new Map(), isCut: false };
  /**
   * Whether files may have changed since the last listing of the roots began. The roots must then
   * be listed again.
   */
  #isStale = true;
  #walking: Promise<void> | undefined;
  #walkTimer: NodeJS.Timeout | undefined;
  #checkTimer: NodeJS.Timeout | undefined;
  #isClosed = false;
  #isRefusalLogged = false;

  constructor(options: LiveListsOptions) {
    this.#options = options;
    this.#watch = new DirectoryWatch(
      () => this.#changed(),
      (error) => this.#refused(error),
    );
    if (options.checkMs > 0) this.#scheduleCheck(options.checkMs);
  }

  /**
   * Returns the current lists of files and directories. They include all changes that were reported
   * before the call.
   */
  async current(): Promise<FileLists> {
    // A walk that is already running may have read a directory before that directory changed.
    if (this.#walking !== undefined) await this.#walking;
    if (this.#isStale || this.#options.checkMs === 0) await this.#walk();
    return this.#tree.lists;
  }

  /** Walks the roots again, even if no change was reported. */
  async refresh(): Promise<void> {
    if (this.#isClosed) return;
    this.#isStale = true;
    await this.current();
  }

  /** Closes the watches and waits for a running walk. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#walkTimer);
    clearTimeout(this.#checkTimer);
    this.#watch.close();
    await this.#walking?.catch(() => {
      // The caller of the failed walk gets the error.
    });
  }

  #walk(): Promise<void> {
    this.#walking ??= this.#walkOnce().finally(() => {
      this.#walking = undefined;
    });
    return this.#walking;
  }

  async #walkOnce(): Promise<void> {
    const { roots, walk, log } = this.#options;
    this.#isStale = false;
    try {
      this.#tree = await walkRoots(roots, {
        ...walk,
        onDirectory: (directory, identity) => this.#watch.add(directory, identity),
      });
    } catch (error) {
      this.#isStale = true;
      throw error;
    }
    this.#watch.keepOnly(this.#tree.directories);
    if (this.#tree.isCut)
      log.warn(
        { roots, files: maxEntries },
        'file_roots contains too many files; the master serves only the first files, up to the limit',
      );
  }

  #changed(): void {
    this.#isStale = true;
    if (this.#isClosed) return;
    this.#walkTimer ??= setTimeout(() => {
      this.#walkTimer = undefined;
      this.current().catch((err: unknown) => {
        this.#options.log.error({ err }, 'cannot list the files in file_roots');
      });
    }, quietMs).unref();
  }

  #refused(err: unknown): void {
    if (this.#isRefusalLogged) return;
    this.#isRefusalLogged = true;
    const { log, checkMs } = this.#options;
    log.warn(
      { err, checkMs },
      'cannot watch every directory of file_roots; the master checks for changes periodically instead',
    );
  }

  #scheduleCheck(ms: number): void {
    this.#checkTimer = setTimeout(() => {
      const startedAt = performance.now();
      this.#check()
        .catch((err: unknown) =>
          this.#options.log.error({ err }, 'cannot check file_roots for changes'),
        )
        .finally(() => {
          const pause = (performance.now() - startedAt) / checkShare;
          if (!this.#isClosed) this.#scheduleCheck(Math.max(this.#options.checkMs, pause));
        });
    }, ms).unref();
  }

  async #check(): Promise<void> {
    for (const [directory, fingerprint] of this.#tree.directories) {
      if (this.#isClosed || this.#isStale) return;
      const state = await directoryState(directory);
      if ((state?.fingerprint ?? 'absent') !== fingerprint) return this.#changed();
    }
  }
}
