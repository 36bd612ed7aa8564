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
import type { TemplateLimits } from '#template';
import type { AskedFunctions } from './asked-functions.ts';
import type { MergeOptions } from './merge-pillar.ts';
import type { PillarMap } from './pillar-data.ts';
import type { UntrustedInput } from './render-task.ts';
import type { ParsedFileCache, Renderer } from './renderer.ts';
import { type SourceFile, type TemplateWhitespace, toSourceFile } from './source-file.ts';

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
  /** Files of `file_roots`, which functions read; `undefined`: the master serves none. */
  readonly files: PillarSources | undefined;
  /** Functions of templates that ask the master. */
  readonly asked: AskedFunctions;
  readonly rendering: Renderer;
  readonly data: ParsedFileCache;
  readonly slowPatterns: SlowPatternRunner;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}
