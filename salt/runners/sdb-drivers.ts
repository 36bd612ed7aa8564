/** Drivers of `sdb://` [salt/sdb/env.py, salt/sdb/yaml.py]; `json` is read as `yaml` is. */

import path from 'node:path';
import type { Logger } from 'pino';
import type { SdbProfile } from '#config';
import { MasterError } from '#master';
import { traverseFacts, type WireValue } from '#minion-protocol';
import { TemplateError } from '#template';
import type { DiskFiles } from '../file-trees/disk-files.ts';
import { mergePillar } from '../render/merge-pillar.ts';
import { isPillarMap, type PillarMap } from '../render/pillar-data.ts';
import { toWire } from '../render/pillar-wire.ts';
import type { Renderer } from '../render/renderer.ts';

/** What a driver can do with a key. */
export interface SdbDriver {
  /** @throws MasterError ERR_ARGS where the profile's files cannot be read */
  get(key: string): Promise<WireValue>;
  /** @throws MasterError ERR_ARGS where it takes no values */
  set(key: string, value: WireValue): WireValue;
  /** @throws MasterError ERR_ARGS where it has none of its own */
  delete(key: string): WireValue;
}

/** Bounds on what is set. */
const maxVariables = 1000;
const maxVariableBytes = 65_536;

/**
 * Variables of the process. What is set is kept beside them, until the end of the process: programs
 * that the master starts do not get it.
 */
export class EnvironmentDriver implements SdbDriver {
  readonly #environment: Readonly<Record<string, string | undefined>>;
  readonly #own = new Map<string, string>();

  constructor(environment: Readonly<Record<string, string | undefined>>) {
    this.#environment = environment;
  }

  async get(key: string): Promise<WireValue> {
    return this.#find(key) ?? null;
  }

  /** As in Salt, a variable that is there stays as it is. @returns what it is then */
  set(key: string, value: WireValue): WireValue {
    const found = this.#find(key);
    if (found !== undefined) return found;
    if (typeof value !== 'string') {
      throw new MasterError('ERR_ARGS', `${key}: expected text, which variables hold`);
    }
    if (this.#own.size >= maxVariables || Buffer.byteLength(key + value) > maxVariableBytes) {
      const bounds = `${maxVariables} variables of ${maxVariableBytes} bytes`;
      throw new MasterError('ERR_ARGS', `${key}: sdb.set keeps no more than ${bounds}`);
    }
    this.#own.set(key, value);
    return value;
  }

  /** What was set, and no variable of the process. */
  delete(key: string): WireValue {
    return this.#own.delete(key);
  }

  #find(key: string): string | undefined {
    const isThere = Object.hasOwn(this.#environment, key);
    return isThere ? this.#environment[key] : this.#own.get(key);
  }
}

export interface FilesDriverDeps {
  readonly files: Pick<DiskFiles, 'find'>;
  readonly reader: Pick<Renderer, 'read'>;
  readonly log: Logger;
}

/** Largest file. */
const maxFileBytes = 1_048_576;

/** Files of data, one over the other; read anew for each value. */
export class FilesDriver implements SdbDriver {
  readonly #name: string;
  readonly #profile: SdbProfile;
  readonly #deps: FilesDriverDeps;

  constructor(name: string, profile: SdbProfile, deps: FilesDriverDeps) {
    this.#name = name;
    this.#profile = profile;
    this.#deps = deps;
  }

  async get(key: string): Promise<WireValue> {
    const { files = [], merge = {}, gpg = false } = this.#profile;
    if (gpg) throw new MasterError('ERR_ARGS', `the sdb profile ${this.#name}: gpg is not served`);
    const { strategy = 'smart', mergeLists = merge.mergeList ?? false } = merge;
    let merged: PillarMap = new Map();
    for (const file of files) {
      const data = await this.#read(file);
      if (data !== undefined) merged = mergePillar(merged, data, { strategy, mergeLists });
    }
    return traverseFacts(toWire(merged), key.split(':')) ?? null;
  }

  set(): never {
    throw this.#readOnly();
  }

  delete(): never {
    throw this.#readOnly();
  }

  #readOnly(): MasterError {
    const { driver } = this.#profile;
    const reason = `the driver ${driver} only reads; change the files of the profile`;
    return new MasterError('ERR_ARGS', `the sdb profile ${this.#name}: ${reason}`);
  }

  /** `undefined`: it is missing or empty. As in Salt, that is no error. @throws MasterError ERR_ARGS */
  async #read(file: string): Promise<PillarMap | undefined> {
    const found = await this.#deps.files.find(path.dirname(file), path.basename(file));
    if (found === undefined) {
      this.#deps.log.warn({ profile: this.#name, file }, 'file of an sdb profile is not there');
      return undefined;
    }
    const { size } = found.stat;
    if (size > maxFileBytes) throw fileError(file, `it has more than ${maxFileBytes} bytes`);
    const text = new TextDecoder().decode(await found.read(0, size));
    if (text.trim() === '') return undefined;
    const format = this.#profile.driver === 'json' ? 'json' : 'yaml';
    const data = await this.#parse({ file, format, text });
    if (isPillarMap(data)) return data;
    throw fileError(file, 'expected a map');
  }

  /** What is wrong is told by its line: texts of the file may be secret. */
  async #parse({
    file: name,
    format,
    text,
  }: {
    readonly file: string;
    readonly format: 'json' | 'yaml';
    readonly text: string;
  }): ReturnType<Renderer['read']> {
    try {
      return await this.#deps.reader.read({ kind: 'read', format, text, name });
    } catch (error) {
      if (!(error instanceof TemplateError)) throw error;
      throw fileError(`${name}, line ${error.place.line}`, `it cannot be read as ${format}`);
    }
  }
}

function fileError(file: string, problem: string): MasterError {
  return new MasterError('ERR_ARGS', `${file}: ${problem}`);
}
