import type { TemplateLoader } from '../../template/index.ts';
import type { FileLists } from '../fileserver/backend.ts';
import { GrainReads } from './grains.ts';
import type { FileRead, MadeFrom } from './made-from.ts';
import type { PillarSources, SourceFile } from './sources.ts';

/** A template asked for a file that was not read yet: it is read, and the template begins again. */
export class NotRead extends Error {
  static {
    NotRead.prototype.name = NotRead.name;
  }

  readonly path: string;

  constructor(path: string) {
    super('a file is to be read first');
    this.path = path;
  }
}

/** What one pillar is made from, noted while it is made. */
export class Reads {
  readonly grains: GrainReads = new GrainReads();
  /** It looked at the clock or at chance: it is another one each time. */
  isVolatile = false;
  readonly #sources: PillarSources;
  readonly #files: Map<string, FileRead>;
  readonly #contents: Map<string, SourceFile | undefined>;
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
    const mark = `${saltenv}\0${path}`;
    if (this.#contents.has(mark)) return this.#contents.get(mark);
    const file = await this.#sources.read(path, saltenv);
    this.#files.set(mark, { path, saltenv, digest: file?.digest });
    this.#contents.set(mark, file);
    return file;
  }

  /** The SLS of an environment. */
  async names(saltenv: string): Promise<ReadonlySet<string>> {
    const lists = this.#lists.get(saltenv) ?? (await this.#sources.lists(saltenv));
    this.#lists.set(saltenv, lists);
    return this.#sources.names(lists);
  }

  /** What templates of an environment include and import. @throws NotRead from its `load` */
  loader(saltenv: string): TemplateLoader {
    return {
      load: (path) => {
        const mark = `${saltenv}\0${path}`;
        if (!this.#contents.has(mark)) throw new NotRead(path);
        return this.#contents.get(mark)?.template();
      },
    };
  }

  /** What was read until now, without the texts. */
  get madeFrom(): MadeFrom {
    return {
      files: [...this.#files.values()],
      lists: Array.from(this.#lists, ([saltenv, lists]) => {
        return { saltenv, digest: this.#sources.namesDigest(lists) };
      }),
      grains: this.grains,
    };
  }
}
