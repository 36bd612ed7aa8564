/** The files of pillar, each read and parsed once for all minions as long as it does not change. */
import { createHash } from 'node:crypto';
import { MasterError } from '../errors.ts';
import type { FileLists, FileServerBackend, FoundFile } from '../fileserver/backend.ts';
import { relativePath } from '../fileserver/requested-path.ts';
import { type SourceFile, type TemplateWhitespace, toSourceFile } from './source-file.ts';

/** What {@link PillarSources} needs. */
export interface PillarSourcesOptions extends TemplateWhitespace {
  /** Serves `pillar_roots`. */
  readonly backend: FileServerBackend;
}

/** Largest file, bytes. */
const maxFileBytes = 16 * 1024 * 1024;
/** Files that are kept parsed. */
const maxKept = 5000;

/** The files below `pillar_roots`. */
export class PillarSources {
  readonly #options: PillarSourcesOptions;
  readonly #kept = new Map<string, Promise<SourceFile>>();
  readonly #names = new WeakMap<FileLists, ReadonlySet<string>>();
  readonly #digests = new WeakMap<FileLists, string>();
  #parsed = 0;

  constructor(options: PillarSourcesOptions) {
    this.#options = options;
  }

  /** How many files were parsed since the start. */
  get parsed(): number {
    return this.#parsed;
  }

  /** The digest of a file as it is now; `undefined` where there is none. */
  async digest(path: string, saltenv: string): Promise<string | undefined> {
    return (await this.#find(path, saltenv))?.hash('sha256');
  }

  /** A file as it is now. @throws MasterError ERR_PILLAR_FILE */
  async read(path: string, saltenv: string): Promise<SourceFile | undefined> {
    const found = await this.#find(path, saltenv);
    if (found === undefined) return undefined;
    const digest = await found.hash('sha256');
    const mark = `${digest} ${path}`;
    const known = this.#kept.get(mark);
    if (known !== undefined) return known;
    const reading = this.#load(found, path, digest);
    this.#kept.set(mark, reading);
    reading.catch(() => this.#kept.delete(mark));
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > maxKept && oldest !== undefined) this.#kept.delete(oldest);
    return reading;
  }

  /** What an environment has; the same object as long as nothing comes or goes. */
  lists(saltenv: string): Promise<FileLists> {
    return this.#options.backend.lists(saltenv);
  }

  /** The SLS of an environment by their names, sorted [salt/fileclient.py list_states]. */
  names(lists: FileLists): ReadonlySet<string> {
    const known = this.#names.get(lists);
    if (known !== undefined) return known;
    const names = lists.files
      .filter((file) => file.endsWith('.sls'))
      .map((file) => file.replace(/(?:\/init)?\.sls$/, '').replaceAll('/', '.'));
    const set = new Set(names.sort());
    this.#names.set(lists, set);
    return set;
  }

  /** Tells the names of an environment's SLS from all others. */
  namesDigest(lists: FileLists): string {
    const known = this.#digests.get(lists);
    if (known !== undefined) return known;
    const names = JSON.stringify([...this.names(lists)]);
    const digest = createHash('sha256').update(names).digest('hex');
    this.#digests.set(lists, digest);
    return digest;
  }

  close(): Promise<void> {
    return this.#options.backend.close();
  }

  async #find(path: string, saltenv: string): Promise<FoundFile | undefined> {
    const place = relativePath(path);
    return place === undefined ? undefined : this.#options.backend.find(place, saltenv);
  }

  async #load(found: FoundFile, path: string, digest: string): Promise<SourceFile> {
    if (found.stat.size > maxFileBytes) {
      throw new MasterError('ERR_PILLAR_FILE', `${path} has more than ${maxFileBytes} bytes`);
    }
    const text = decode(await found.read(0, found.stat.size), path);
    return toSourceFile({ path, digest, text }, this.#options, () => {
      this.#parsed += 1;
    });
  }
}

function decode(bytes: Uint8Array, path: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (cause) {
    throw new MasterError('ERR_PILLAR_FILE', `${path} is not UTF-8`, { cause });
  }
}
