/**
 * Records the files, lists and grains on which a compiled pillar depends. The pillar is valid while
 * these are unchanged.
 */

import type { FileLists } from '#master';
import { GrainReads } from './grains.ts';
import type { PillarSources } from './pillar-sources.ts';
import type { Notes } from './render-task.ts';
import type { Imports } from './renderer.ts';
import type { SourceFile } from './source-file.ts';

/** A file that a rendering requested, whether or not it exists. */
export interface FileRead {
  readonly path: string;
  readonly saltenv: string;
  /** Digest of the file. `undefined` if it did not exist. */
  readonly digest: string | undefined;
}

/**
 * Dependency of a pillar on the SLS names of an environment, because a pattern was matched against
 * them.
 */
interface ListRead {
  readonly saltenv: string;
  /** Digest of the SLS names of the environment. */
  readonly digest: string;
}

/** Files, lists and grains on which a pillar depends, without the contents of the files. */
export interface CacheDependencies {
  readonly files: readonly FileRead[];
  readonly lists: readonly ListRead[];
  readonly grains: GrainReads;
}

type Contents = Map<string, SourceFile | undefined>;

/** Records the dependencies of one pillar while it is compiled. */
export class Reads implements Notes {
  readonly grains: GrainReads = new GrainReads();
  /**
   * Whether the rendering used the time or random values, so that the result must not be cached.
   */
  isVolatile = false;
  readonly #sources: PillarSources;
  readonly #files: Map<string, FileRead>;
  /** File contents that the rendering has read, by environment and path. */
  readonly #contents: Map<string, Contents>;
  readonly #lists: Map<string, FileLists>;

  /**
   * Creates the record of the dependencies of one pillar.
   * @param beside - record of another pillar. The new record reuses the file versions that were
   * read for that pillar
   */
  constructor(sources: PillarSources, beside?: Reads) {
    this.#sources = sources;
    this.#files = beside === undefined ? new Map() : beside.#files;
    this.#contents = beside === undefined ? new Map() : beside.#contents;
    this.#lists = beside === undefined ? new Map() : beside.#lists;
  }

  /**
   * Returns a record of dependencies for compiling the pillar of the same minion again, with other
   * grains. The new record reuses the files that were already read.
   */
  beside(): Reads {
    return new Reads(this.#sources, this);
  }

  /**
   * Reads a file. All calls while one pillar is compiled return the same version.
   * @throws MasterError ERR_PILLAR_FILE
   */
  async read(path: string, saltenv: string): Promise<SourceFile | undefined> {
    const contents = this.#contentsOf(saltenv);
    if (contents.has(path)) return contents.get(path);
    const file = await this.#sources.read(path, saltenv);
    this.#files.set(`${saltenv}\0${path}`, { path, saltenv, digest: file?.digest });
    contents.set(path, file);
    return file;
  }

  /** Returns the SLS names of an environment. */
  async names(saltenv: string): Promise<ReadonlySet<string>> {
    const lists = this.#lists.get(saltenv) ?? (await this.#sources.lists(saltenv));
    this.#lists.set(saltenv, lists);
    return this.#sources.names(lists);
  }

  /** Returns a reader of the files that templates of an environment include and import. */
  imports(saltenv: string): Imports {
    return {
      known: this.#contentsOf(saltenv),
      read: (path) => this.read(path, saltenv),
    };
  }

  /** The dependencies recorded so far, without the contents of files. */
  get madeFrom(): CacheDependencies {
    return {
      files: [...this.#files.values()],
      lists: Array.from(this.#lists, ([saltenv, lists]) => {
        return { saltenv, digest: this.#sources.namesDigest(lists) };
      }),
      grains: this.grains,
    };
  }

  #contentsOf(saltenv: string): Contents {
    const known = this.#contents.get(saltenv);
    if (known !== undefined) return known;
    const contents: Contents = new Map();
    this.#contents.set(saltenv, contents);
    return contents;
  }
}
