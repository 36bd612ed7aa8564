/** Lists of the served files, read again when a directory changes. */

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

/** A burst of changes, such as a checkout, is walked through once. */
const quietMs = 100;
/** Looking at every directory may take this share of the time at most. */
const checkShare = 0.02;

/** What the lists of an environment are made of. */
interface LiveListsOptions {
  /** Absolute paths. */
  readonly roots: readonly string[];
  readonly walk: Omit<WalkOptions, 'onDirectory'>;
  /** Milliseconds between looks at the directories, for changes that no watch tells of. */
  readonly checkMs: number;
  readonly log: Logger;
}

/**
 * The lists of one environment, kept up to date: walked at the start and after a change, however
 * many ask. Changes are told by watches; where the system has none to give, or none come (network
 * file systems), by a look at each directory's own time stamp now and then.
 */
export class LiveLists {
  readonly #options: LiveListsOptions;
  readonly #watch: DirectoryWatch;
  #tree: Tree = { lists: noFiles, directories: new Map(), isCut: false };
  /** Something may have changed since the latest walk began. */
  #isStale = true;
  #walking: Promise<void> | undefined;
  #walkTimer: NodeJS.Timeout | undefined;
  #checkTimer: NodeJS.Timeout | undefined;
  #isClosed = false;
  #isRefusalTold = false;

  constructor(options: LiveListsOptions) {
    this.#options = options;
    this.#watch = new DirectoryWatch(
      () => this.#changed(),
      (error) => this.#refused(error),
    );
    if (options.checkMs > 0) this.#scheduleCheck(options.checkMs);
  }

  /** As it is now: what changed before the call is in it. */
  async current(): Promise<FileLists> {
    // A walk that is under way began before: it may have passed the place of a later change.
    if (this.#walking !== undefined) await this.#walking;
    if (this.#isStale || this.#options.checkMs === 0) await this.#walk();
    return this.#tree.lists;
  }

  /** Walks anew, whatever has been told of changes. */
  async refresh(): Promise<void> {
    if (this.#isClosed) return;
    this.#isStale = true;
    await this.current();
  }

  /** Ends the watches, and waits for a walk that is under way. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#walkTimer);
    clearTimeout(this.#checkTimer);
    this.#watch.close();
    await this.#walking?.catch(() => {
      // Told to whoever asked for it.
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
    if (this.#tree.isCut) log.warn({ roots, files: maxEntries }, 'file lists were cut');
  }

  #changed(): void {
    this.#isStale = true;
    if (this.#isClosed) return;
    this.#walkTimer ??= setTimeout(() => {
      this.#walkTimer = undefined;
      this.current().catch((err: unknown) => {
        this.#options.log.error({ err }, 'file roots could not be walked');
      });
    }, quietMs).unref();
  }

  #refused(err: unknown): void {
    if (this.#isRefusalTold) return;
    this.#isRefusalTold = true;
    const { log, checkMs } = this.#options;
    log.warn({ err, checkMs }, 'not every directory is watched; changes show at the next look');
  }

  #scheduleCheck(ms: number): void {
    this.#checkTimer = setTimeout(() => {
      const startedAt = performance.now();
      this.#check()
        .catch((err: unknown) => this.#options.log.error({ err }, 'file roots were not looked at'))
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
