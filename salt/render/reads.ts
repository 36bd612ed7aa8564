/** Dependencies: a pillar is valid while what it was made from is unchanged. */

import type { FileLists } from '#master';
import { GrainReads } from './grains.ts';
import type { PillarSources } from './pillar-sources.ts';
import type { Notes } from './render-task.ts';
import type { Imports } from './renderer.ts';
import type { SourceFile } from './source-file.ts';

/** A file that was looked for. */
export interface FileRead {
  readonly path: string;
  readonly saltenv: string;
  /** `undefined`: it was not there. */
  readonly digest: string | undefined;
}

/** The SLS of an environment, where a pattern went through their names. */
interface ListRead {
  readonly saltenv: string;
  /** Of the names. */
  readonly digest: string;
}

/** Dependencies of a pillar. They hold no text of the files. */
export interface CacheDependencies {
  readonly files: readonly FileRead[];
  readonly lists: readonly ListRead[];
  readonly grains: GrainReads;
}

type Contents = Map<string, SourceFile | undefined>;

/** What one pillar is made from, noted while it is made. */
export class Reads implements Notes {
  readonly grains: GrainReads = new GrainReads();
  /** It looked at the clock or at chance: it is another one each time. */
  isVolatile = false;
  readonly #sources: PillarSources;
  readonly #files: Map<string, FileRead>;
  /** By environment and path. */
  readonly #contents: Map<string, Contents>;
  readonly #lists: Map<string, FileLists>;

  /** @param beside one whose files these are too */
  constructor(sources: PillarSources, beside?: Reads) {
    this.#sources = sources;
    this.#files = beside === undefined ? new Map() : beside.#files;
    this.#contents = beside === undefined ? new Map() : beside.#contents;
    this.#lists = beside === undefined ? new Map() : beside.#lists;
  }

  /** For another pillar of the same minion at the same moment: the same files, other grains. */
  beside(): Reads {
    return new Reads(this.#sources, this);
  }

  /** A file; within one pillar it does not change. @throws MasterError ERR_PILLAR_FILE */
  async read(path: string, saltenv: string): Promise<SourceFile | undefined> {
    const contents = this.#contentsOf(saltenv);
    if (contents.has(path)) return contents.get(path);
    const file = await this.#sources.read(path, saltenv);
    this.#files.set(`${saltenv}\0${path}`, { path, saltenv, digest: file?.digest });
    contents.set(path, file);
    return file;
  }

  /** The SLS of an environment. */
  async names(saltenv: string): Promise<ReadonlySet<string>> {
    const lists = this.#lists.get(saltenv) ?? (await this.#sources.lists(saltenv));
    this.#lists.set(saltenv, lists);
    return this.#sources.names(lists);
  }

  /** What templates of an environment include and import. */
  imports(saltenv: string): Imports {
    return {
      known: this.#contentsOf(saltenv),
      read: (path) => this.read(path, saltenv),
    };
  }

  /** What was read until now, without the texts. */
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
