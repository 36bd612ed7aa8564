/** Files of pillar. Each version of a file is read and parsed once for all minions. */

import { hash } from 'node:crypto';
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
import { saltLimits } from '../limits.ts';
import type { AskedFunctions } from './asked-functions.ts';
import type { LatePaths, LateRules } from './late-grains.ts';
import type { MergeOptions } from './merge-pillar.ts';
import type { PillarMap } from './pillar-data.ts';
import type { UntrustedInput } from './render-task.ts';
import type { ParsedFileCache, Renderer } from './renderer.ts';
import { type SourceFile, type TemplateWhitespace, toSourceFile } from './source-file.ts';

export interface PillarSourcesOptions extends TemplateWhitespace {
  /** Backend that serves `pillar_roots`. */
  readonly backend: FileServerBackend;
}

/** Paths in an environment. */
export interface FilePaths {
  readonly files: ReadonlySet<string>;
  readonly dirs: ReadonlySet<string>;
}

/** Maximum size of a file of pillar, in bytes. */
const maxFileBytes = 16 * 1024 * 1024;

/** The files below `pillar_roots`. */
export class PillarSources {
  readonly #options: PillarSourcesOptions;
  readonly #kept = createBoundedMap<string, Promise<SourceFile>>(saltLimits.pillarFiles);
  readonly #names = new WeakMap<FileLists, ReadonlySet<string>>();
  readonly #digests = new WeakMap<FileLists, string>();
  readonly #paths = new WeakMap<FileLists, FilePaths>();
  #parsed = 0;

  constructor(options: PillarSourcesOptions) {
    this.#options = options;
  }

  /** Number of files parsed since the start. */
  get parsed(): number {
    return this.#parsed;
  }

  /** Returns the digest of a file's current content, or `undefined` if the file does not exist. */
  async digest(path: string, saltenv: string): Promise<string | undefined> {
    return (await this.#find(path, saltenv))?.hash('sha256');
  }

  /**
   * Reads the current version of a file.
   * @throws MasterError ERR_PILLAR_FILE
   */
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

  /**
   * Lists the files of an environment. Returns the same object until a file is added or removed.
   */
  lists(saltenv: string): Promise<FileLists> {
    return this.#options.backend.lists(saltenv);
  }

  /** Returns the sorted names of the SLS in an environment [salt/fileclient.py list_states]. */
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

  /** Returns the paths of the files and directories in an environment. */
  paths(lists: FileLists): FilePaths {
    const known = this.#paths.get(lists);
    if (known !== undefined) return known;
    const paths = { files: new Set(lists.files), dirs: new Set(lists.dirs) };
    this.#paths.set(lists, paths);
    return paths;
  }

  /** Returns a digest of the names of the SLS in an environment. */
  namesDigest(lists: FileLists): string {
    const known = this.#digests.get(lists);
    if (known !== undefined) return known;
    const names = JSON.stringify([...this.names(lists)]);
    const digest = hash('sha256', names);
    this.#digests.set(lists, digest);
    return digest;
  }

  /** Lists the files again. */
  async refresh(): Promise<void> {
    await this.#options.backend.refresh?.();
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
      throw new MasterError('ERR_PILLAR_FILE', `${path} exceeds ${maxFileBytes} bytes`);
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
    throw new MasterError('ERR_PILLAR_FILE', `${path}: the file is not valid UTF-8`, { cause });
  }
}

/** Settings for compiling pillars. They are the same for all minions. */
export interface PillarRules extends MergeOptions {
  /**
   * `pillar_includes_override_sls`: whether data of an included SLS overrides data of the SLS that
   * includes it.
   */
  readonly includesOverride: boolean;
  /**
   * `pillar_safe_render_error`: whether minions get only a generic message if a file cannot be
   * rendered.
   */
  readonly isErrorSafe: boolean;
  /** `pillar_raise_on_missing`: whether `pillar.get` without a default fails for missing keys. */
  readonly raisesOnMissing: boolean;
  /** `state_top`: name of the top file. */
  readonly top: string;
  /** `renderer`: default renderer. */
  readonly renderer: string;
  readonly trimBlocks: boolean;
  readonly lstripBlocks: boolean;
  readonly nodegroups: Nodegroups;
  /** Options of the master that `config.get` returns, by their names in Salt. */
  readonly masterOptions: WireMap;
  readonly limits: Partial<TemplateLimits>;
}

/**
 * Settings for compiling one pillar whose SLS files print placeholders instead of the values of
 * some grains.
 */
export interface LateSetting {
  readonly rules: LateRules;
  /** Collects the paths of the grain values that placeholders in the compiled pillar stand for. */
  readonly paths: LatePaths;
}

/** Inputs for compiling one minion's pillar. */
export interface PillarSetting extends PillarRules {
  readonly id: string;
  readonly grains: WireMap;
  readonly saltenv: string | undefined;
  readonly pillarenv: string | undefined;
  /** Environments, `base` first. */
  readonly envs: readonly string[];
  /** Environments for which directories are configured. */
  readonly rooted: ReadonlySet<string>;
  /** Value of `opts` in templates. */
  readonly opts: Readonly<Record<string, unknown>>;
  /**
   * Value of `pillar` in templates. As in Salt, it is the external pillar if `ext_pillar_first` is
   * set, otherwise empty.
   */
  readonly pillar: PillarMap;
  /**
   * Data from a caller who does not have all rights. Templates can output its texts only as plain
   * values.
   */
  readonly foreign?: UntrustedInput | undefined;
  /**
   * Grains that become placeholders when SLS files print them. Top files always read the real
   * values. Default: no grains become placeholders.
   */
  readonly late?: LateSetting | undefined;
  /** Files of `file_roots` that functions may read. `undefined` if the master serves none. */
  readonly files: PillarSources | undefined;
  /** Template functions that the master executes. */
  readonly asked: AskedFunctions;
  readonly rendering: Renderer;
  readonly data: ParsedFileCache;
  readonly slowPatterns: SlowPatternRunner;
  /** Returns milliseconds since 1970. */
  readonly now: () => number;
}
