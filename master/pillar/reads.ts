import type { WireMap } from '../../minion-protocol/index.ts';
import type { TemplateLoader } from '../../template/index.ts';
import type { FileLists } from '../fileserver/backend.ts';
import { GrainReads } from './grains.ts';
import type { PillarSources, SourceFile } from './sources.ts';

interface FileRead {
  readonly path: string;
  readonly saltenv: string;
  /** `undefined`: it was not there. */
  readonly digest: string | undefined;
}

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

/** Everything that one pillar was made from: as long as that is the same, so is the pillar. */
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

  /** The files that were read, as `<saltenv>:<path>`. */
  get files(): string[] {
    const there = [...this.#files.values()].filter(({ digest }) => digest !== undefined);
    return there.map(({ saltenv, path }) => `${saltenv}:${path}`);
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

  /** Nothing more is made from it: the texts are let go. */
  seal(): void {
    this.#contents.clear();
  }

  /** Whether a pillar made now, with these grains, would be made from the same. */
  async areCurrent(grains: WireMap): Promise<boolean> {
    if (this.isVolatile || !this.grains.agreeWith(grains)) return false;
    const files = Array.from(this.#files.values(), async ({ path, saltenv, digest }) => {
      return (await this.#sources.digest(path, saltenv)) === digest;
    });
    const lists = Array.from(this.#lists, async ([saltenv, lists]) => {
      return (await this.#sources.lists(saltenv)) === lists;
    });
    return (await Promise.all([...files, ...lists])).every((isSame) => isSame);
  }
}
