/** The files of pillar, each read and parsed once for all minions as long as it does not change. */

import { createHash } from 'node:crypto';
import {
  type FileLists,
  type FileServerBackend,
  type FoundFile,
  MasterError,
  relativePath,
  type SlowPatternRunner,
} from '#master';
import type { Nodegroups, WireMap } from '#minion-protocol';
import { createBoundedMap } from '#runtime';
import type { PlainData, TemplateLimits } from '#template';
import { EventText } from './event-text.ts';
import { GrainReads } from './grains.ts';
import {
  isEmpty,
  type MergeOptions,
  type PillarMap,
  type SourceFile,
  type TemplateWhitespace,
  toSourceFile,
} from './pillar-data.ts';
import type { Notes, PillarTask, Rendered, UntrustedInput } from './render-task.ts';
import { type Imports, isTransient, type ParsedFileCache, type Renderer } from './renderer.ts';

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
  readonly #kept = createBoundedMap<string, Promise<SourceFile>>(maxKept);
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

// Renderers of a file: its first line, or `renderer` [salt/template.py].

/** What is done with a file, in this order. */
export interface RenderPipe {
  readonly isTemplate: boolean;
  readonly format: 'yaml' | 'json';
}

const pipes: Readonly<Record<string, RenderPipe>> = {
  yaml: { isTemplate: false, format: 'yaml' },
  json: { isTemplate: false, format: 'json' },
  'jinja|yaml': { isTemplate: true, format: 'yaml' },
  'jinja|json': { isTemplate: true, format: 'json' },
  yaml_jinja: { isTemplate: true, format: 'yaml' },
  json_jinja: { isTemplate: true, format: 'json' },
};

const noCode =
  'it runs code in the master; write it in Jinja, or give createMaster a pillar function';
const noKeys =
  'the master decrypts nothing; keep the secrets elsewhere, and give createMaster a pillar function';

/** What to do instead, by renderer. */
const waysOut: Readonly<Record<string, string>> = {
  py: noCode,
  pydsl: noCode,
  pyobjects: noCode,
  gpg: noKeys,
  nacl: noKeys,
};
const otherWayOut = 'jinja|yaml, jinja|json, yaml and json are';

/**
 * The renderers of a file. @param standard `renderer`
 * @throws MasterError ERR_RENDERER for others, by name
 */
export function pipeOf(text: string, standard: string): RenderPipe {
  const [line = ''] = text.split('\n', 1);
  const isMarked = line.startsWith('#!') && !line.startsWith('#!/');
  const names = (isMarked ? line.trim().slice(2) : standard).split('|').map((name) => name.trim());
  const pipe = names.join('|');
  const known = Object.hasOwn(pipes, pipe) ? pipes[pipe] : undefined;
  if (known !== undefined) return known;
  const [strange = ''] = names.filter((name) => !['jinja', 'yaml', 'json'].includes(name));
  const [name = ''] = (strange || pipe).split(' ', 1);
  const remedy = Object.hasOwn(waysOut, name) ? waysOut[name] : otherWayOut;
  throw new MasterError('ERR_RENDERER', `the renderer "${name}" is not served: ${remedy}`);
}

// Rendering of one file [salt/renderers/{jinja,yaml,json}.py].

/** What a file is rendered as. */
export interface RenderedAs {
  readonly saltenv: string;
  /** Its name, `web.common`; empty for a top file. */
  readonly sls: string;
  /** More variables: `defaults` of an include. */
  readonly defaults: PillarMap;
}

/** What files are rendered with. */
export type SlsRendering = Pick<
  PillarSetting,
  | 'id'
  | 'grains'
  | 'opts'
  | 'pillar'
  | 'foreign'
  | 'raisesOnMissing'
  | 'nodegroups'
  | 'renderer'
  | 'trimBlocks'
  | 'lstripBlocks'
  | 'limits'
  | 'rendering'
  | 'data'
  | 'now'
>;

/** Renders the files of one pillar, or of one orchestration. */
export class SlsRenderer {
  readonly #setting: SlsRendering;
  readonly #reads: Reads;

  constructor(setting: SlsRendering, reads: Reads) {
    this.#setting = setting;
    this.#reads = reads;
  }

  /**
   * The data of a file; an empty map for one with nothing in it.
   * @throws TemplateError, MasterError ERR_RENDERER, ERR_PILLAR_FILE, ERR_RENDER_GIVEN_UP
   */
  async render(file: SourceFile, as: RenderedAs): Promise<PlainData> {
    if (file.text.trim() === '') return new Map();
    const pipe = pipeOf(file.text, this.#setting.renderer);
    try {
      const data = pipe.isTemplate
        ? await this.#readRendered(await this.#renderTemplate(file, as), file.path, pipe)
        : await this.#read(file.text, file.path, pipe);
      return isEmpty(data) ? new Map() : data;
    } catch (error) {
      if (isTransient(error)) this.#reads.isVolatile = true;
      throw error;
    }
  }

  /** What was marked is put in its place once its text has been read. */
  async #readRendered(
    { text, marked }: Rendered,
    name: string,
    pipe: RenderPipe,
  ): Promise<PlainData> {
    const data = await this.#read(text, name, pipe);
    const { foreign } = this.#setting;
    return foreign === undefined ? data : new EventText(foreign.secret, marked).restoreAll(data);
  }

  async #renderTemplate(file: SourceFile, as: RenderedAs): Promise<Rendered> {
    const { id, grains, opts, pillar, raisesOnMissing, nodegroups, ...setting } = this.#setting;
    const { trimBlocks, lstripBlocks, limits, now, rendering, foreign } = setting;
    // Member by member: nothing else is copied to another thread.
    const task: PillarTask = {
      kind: 'pillar',
      ...as,
      ...{ id, grains, opts, pillar, raisesOnMissing, nodegroups },
      ...{ trimBlocks, lstripBlocks, limits },
      now: now(),
      foreign,
    };
    const imports = this.#reads.imports(as.saltenv);
    return rendering.render(file, task, imports, this.#reads);
  }

  async #read(text: string, name: string, { format }: RenderPipe): Promise<PlainData> {
    const { data } = this.#setting;
    if (format === 'yaml') return data.read({ kind: 'read', format, text, name });
    const [line = ''] = text.split('\n', 1);
    const json = line.startsWith('#!') ? text.slice(line.length + 1) : text;
    return json.trim() === '' ? new Map() : data.read({ kind: 'read', format, text: json, name });
  }
}

/** The file of an SLS: `web.common` is `web/common.sls` or `web/common/init.sls`. */
export async function findSls(
  reads: Reads,
  sls: string,
  saltenv: string,
): Promise<SourceFile | undefined> {
  const place = sls.replaceAll('.', '/');
  return (
    (await reads.read(`${place}.sls`, saltenv)) ?? (await reads.read(`${place}/init.sls`, saltenv))
  );
}

// Dependencies: a pillar is valid while what it was made from is unchanged.

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

/** What the operator decided, the same for all minions. */
export interface PillarRules extends MergeOptions {
  /** `pillar_includes_override_sls`: what is included lies over the file that includes it. */
  readonly includesOverride: boolean;
  /** `pillar_safe_render_error`: minions are not told what is wrong with a file. */
  readonly isErrorSafe: boolean;
  /** `pillar_raise_on_missing`: `pillar.get` without a default fails where there is nothing. */
  readonly raisesOnMissing: boolean;
  /** `state_top`. */
  readonly top: string;
  /** `renderer`. */
  readonly renderer: string;
  readonly trimBlocks: boolean;
  readonly lstripBlocks: boolean;
  readonly nodegroups: Nodegroups;
  readonly limits: Partial<TemplateLimits>;
}

/** One minion's pillar in the making. */
export interface PillarSetting extends PillarRules {
  readonly id: string;
  readonly grains: WireMap;
  readonly saltenv: string | undefined;
  readonly pillarenv: string | undefined;
  /** Environments, `base` first. */
  readonly envs: readonly string[];
  /** Those of them that have directories. */
  readonly rooted: ReadonlySet<string>;
  /** What templates see as `opts`. */
  readonly opts: Readonly<Record<string, unknown>>;
  /** What templates see as `pillar`: as in Salt what external pillar gave before, else nothing. */
  readonly pillar: PillarMap;
  /** Words of somebody who may not do everything: they stay values, whatever they say. */
  readonly foreign?: UntrustedInput | undefined;
  readonly rendering: Renderer;
  readonly data: ParsedFileCache;
  readonly slowPatterns: SlowPatternRunner;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}
