/** Drivers of `sdb://` [salt/sdb/env.py, salt/sdb/yaml.py]. `json` files are parsed like `yaml`. */

import path from 'node:path';
import type { Logger } from 'pino';
import type { SdbProfile } from '#config';
import { MasterError } from '#master';
import { traverseFacts, type WireValue } from '#minion-protocol';
import { TemplateError } from '#template';
import type { DiskFiles } from '../file-trees/disk-files.ts';
import { saltLimits } from '../limits.ts';
import { mergePillar } from '../render/merge-pillar.ts';
import { isPillarMap, type PillarMap } from '../render/pillar-data.ts';
import { toWire } from '../render/pillar-wire.ts';
import type { ReadTask } from '../render/render-task.ts';
import type { Renderer } from '../render/renderer.ts';
import { operatorOwner, StoredAmounts } from './stored-amounts.ts';

/** Driver of an sdb profile: reads and writes its values. */
export interface SdbDriver {
  /**
   * Returns the value of a key.
   * @param owner - result of {@link ownerOfValues}
   * @throws MasterError ERR_ARGS if a file of the profile cannot be read
   */
  get(key: string, owner: string): Promise<WireValue>;
  /**
   * Sets a value.
   * @param owner - result of {@link ownerOfValues}
   * @returns the value of the key after the call
   * @throws MasterError ERR_ARGS if the driver is read-only, or if it does not accept the value
   */
  set(key: string, value: WireValue, owner: string): WireValue;
  /**
   * Deletes a value.
   * @returns whether the value existed
   * @throws MasterError ERR_ARGS if the driver is read-only
   */
  delete(key: string): WireValue;
}

const maxVariableBytes = 65_536;

/**
 * Driver for the environment variables of the process. Values that callers set are stored
 * separately until the process ends, and child processes of the master do not inherit them.
 */
export class EnvironmentDriver implements SdbDriver {
  readonly #environment: Readonly<Record<string, string | undefined>>;
  readonly #own = new Map<string, { readonly value: string; readonly owner: string }>();
  readonly #variables = new StoredAmounts(saltLimits.sdbVariables);

  constructor(environment: Readonly<Record<string, string | undefined>>) {
    this.#environment = environment;
  }

  async get(key: string): Promise<WireValue> {
    return this.#find(key) ?? null;
  }

  /**
   * Sets an environment variable. As in Salt, a variable that already has a value is not changed.
   * @returns the value of the variable after the call
   */
  set(key: string, value: WireValue, owner: string = operatorOwner): WireValue {
    const found = this.#find(key);
    if (found !== undefined) return found;
    if (typeof value !== 'string') {
      throw new MasterError('ERR_ARGS', `${key}: the value of a variable must be text`);
    }
    const isSmall = Buffer.byteLength(key + value) <= maxVariableBytes;
    if (!isSmall || !this.#variables.tryTake(owner, 1)) {
      const maximum = this.#variables.maximumOf(owner);
      const bounds = `${maximum} variables of ${maxVariableBytes} bytes`;
      throw new MasterError('ERR_ARGS', `${key}: sdb.set stores at most ${bounds}`);
    }
    this.#own.set(key, { value, owner });
    return value;
  }

  /**
   * Deletes a variable that `sdb.set` stored, and returns whether it existed. Variables of the
   * process environment are never deleted.
   */
  delete(key: string): WireValue {
    const found = this.#own.get(key);
    if (found !== undefined) this.#variables.release(found.owner, 1);
    return this.#own.delete(key);
  }

  #find(key: string): string | undefined {
    const isThere = Object.hasOwn(this.#environment, key);
    return isThere ? this.#environment[key] : this.#own.get(key)?.value;
  }
}

export interface FilesDriverDeps {
  readonly files: Pick<DiskFiles, 'find'>;
  readonly reader: Pick<Renderer, 'read'>;
  readonly log: Logger;
}

/** Maximum size of a file, in bytes. */
const maxFileBytes = 1_048_576;

/** Driver for data files, which are merged in order. The files are read again for each request. */
export class FilesDriver implements SdbDriver {
  readonly #name: string;
  readonly #profile: SdbProfile;
  readonly #deps: FilesDriverDeps;

  constructor(name: string, profile: SdbProfile, deps: FilesDriverDeps) {
    this.#name = name;
    this.#profile = profile;
    this.#deps = deps;
  }

  async get(key: string, owner: string): Promise<WireValue> {
    const { files = [], merge = {}, gpg = false } = this.#profile;
    if (gpg)
      throw new MasterError('ERR_ARGS', `the sdb profile ${this.#name}: gpg is not supported`);
    const { strategy = 'smart', mergeLists = merge.mergeList ?? false } = merge;
    let merged: PillarMap = new Map();
    for (const file of files) {
      const data = await this.#read(file, owner);
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
    const reason = `the driver ${driver} is read-only; edit the files of the profile`;
    return new MasterError('ERR_ARGS', `the sdb profile ${this.#name}: ${reason}`);
  }

  /**
   * Reads a file. Returns `undefined` for a missing or empty file, which is not an error in Salt.
   * @throws MasterError ERR_ARGS
   */
  async #read(file: string, owner: string): Promise<PillarMap | undefined> {
    const found = await this.#deps.files.find(path.dirname(file), path.basename(file));
    if (found === undefined) {
      this.#deps.log.warn(
        { profile: this.#name, file },
        'a file of an sdb profile does not exist; the master treats the file as empty',
      );
      return undefined;
    }
    const { size } = found.stat;
    if (size > maxFileBytes) throw fileError(file, `the file is larger than ${maxFileBytes} bytes`);
    const text = new TextDecoder().decode(await found.read(0, size));
    if (text.trim() === '') return undefined;
    const format = this.#profile.driver === 'json' ? 'json' : 'yaml';
    const data = await this.#parse({ kind: 'read', format, text, name: file }, owner);
    if (isPillarMap(data)) return data;
    throw fileError(file, 'the file must contain a map at its top level');
  }

  /**
   * Parses a file. Error messages contain only the line number, because the content may be secret.
   */
  async #parse(task: ReadTask, owner: string): ReturnType<Renderer['read']> {
    try {
      return await this.#deps.reader.read(task, owner);
    } catch (error) {
      if (!(error instanceof TemplateError)) throw error;
      throw fileError(
        task.name,
        `line ${error.place.line} of the file is not valid ${task.format}`,
      );
    }
  }
}

function fileError(file: string, problem: string): MasterError {
  return new MasterError('ERR_ARGS', `${file}: ${problem}`);
}
