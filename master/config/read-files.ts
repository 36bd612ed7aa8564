import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';
import { isMissing } from '../system-error.ts';
import { ConfigError, type OptionOrigin } from './errors.ts';
import { expandGlob } from './expand-glob.ts';
import { parseConfigFile } from './parse-file.ts';
import { typeError } from './refusals.ts';
import { mergeSettings, overrideSettings, type Setting, type Settings } from './settings.ts';
import type { ConfigWarning } from './warnings.ts';

const defaultInclude = 'master.d/*.conf';

/** What the files say, laid over each other. */
export interface FileSettings {
  readonly settings: Settings;
  /** Every file that was read, in the order of reading. */
  readonly files: readonly string[];
  readonly warnings: readonly ConfigWarning[];
}

/**
 * Reads a main file, then its `default_include`, then its `include`; what comes later wins.
 * [salt.config.master_config]
 * @param onProblem - told of each file that cannot be used, which is then passed over. Default:
 * the first one is thrown
 * @throws ConfigError ERR_CONFIG_READ, ERR_CONFIG_SYNTAX, ERR_OPTION_TYPE
 */
export async function readConfigFiles(
  mainFile: string,
  onProblem?: (problem: ConfigError) => void,
): Promise<FileSettings> {
  const reader = new FileReader(onProblem);
  const settings = await reader.attempt(() => reader.readMain(mainFile));
  const standard = settings.get('default_include');
  const included = settings.get('include');
  const standardFiles = await reader.attempt(() => {
    const patterns = standard === undefined ? [defaultInclude] : patternsOf(standard);
    const origin = standard?.origin ?? { file: mainFile, line: 0, key: 'default_include' };
    return reader.include(patterns, origin, []);
  });
  overrideSettings(settings, standardFiles);
  if (included !== undefined) {
    overrideSettings(settings, await reader.attempt(() => reader.includeOf(included, [])));
  }
  return { settings, files: reader.files, warnings: reader.warnings };
}

class FileReader {
  readonly files: string[] = [];
  readonly warnings: ConfigWarning[] = [];
  readonly #onProblem: ((problem: ConfigError) => void) | undefined;

  constructor(onProblem: ((problem: ConfigError) => void) | undefined) {
    this.#onProblem = onProblem;
  }

  /** Reads; what cannot be used is told, and stands for no options, where somebody listens. */
  async attempt(read: () => Promise<Settings>): Promise<Settings> {
    try {
      return await read();
    } catch (error) {
      if (this.#onProblem === undefined || !(error instanceof ConfigError)) throw error;
      this.#onProblem(error);
      return new Map();
    }
  }

  async readMain(file: string): Promise<Settings> {
    try {
      return await this.#read(file);
    } catch (error) {
      if (!(error instanceof ConfigError) || !isMissing(error.cause)) throw error;
      const origin = { file, line: 0, key: '' };
      const message = `${file} does not exist; defaults apply`;
      this.warnings.push({ kind: 'missing-file', ...origin, message });
      return new Map();
    }
  }

  /** Files of an `include:`; a pattern that finds nothing is told. */
  async includeOf(setting: Setting, trail: readonly string[]): Promise<Settings> {
    const { origin } = setting;
    const patterns = patternsOf(setting);
    for (const pattern of patterns) {
      if ((await expandGlob(absolute(pattern, origin.file))).length > 0) continue;
      const message = `${origin.file}:${origin.line}: include: ${pattern} matches no file`;
      this.warnings.push({ kind: 'nothing-included', ...origin, message });
    }
    return await this.include(patterns, origin, trail);
  }

  async include(
    patterns: readonly string[],
    origin: OptionOrigin,
    trail: readonly string[],
  ): Promise<Settings> {
    const merged: Settings = new Map();
    for (const pattern of patterns) {
      for (const file of await expandGlob(absolute(pattern, origin.file))) {
        const read = (): Promise<Settings> =>
          this.#readIncluded(file, origin, [...trail, origin.file]);
        mergeSettings(merged, await this.attempt(read));
      }
    }
    return merged;
  }

  async #readIncluded(
    file: string,
    origin: OptionOrigin,
    trail: readonly string[],
  ): Promise<Settings> {
    if (trail.includes(file)) {
      const problem = `${file} includes itself; take it out here, or further up`;
      throw new ConfigError('ERR_CONFIG_READ', origin, problem);
    }
    const settings = await this.#read(file);
    const inner = settings.get('include');
    if (inner !== undefined) {
      overrideSettings(settings, await this.attempt(() => this.includeOf(inner, trail)));
    }
    return settings;
  }

  async #read(file: string): Promise<Settings> {
    let text: string;
    try {
      text = await readFile(file, 'utf8');
    } catch (cause) {
      const origin = { file, line: 0, key: '' };
      throw new ConfigError('ERR_CONFIG_READ', origin, 'the file could not be read', { cause });
    }
    this.files.push(file);
    return parseConfigFile(text, file);
  }
}

function patternsOf({ value, origin }: Setting): string[] {
  if (value === null || value === '') return [];
  const list: unknown[] = Array.isArray(value) ? value : [value];
  return list.map((pattern) => {
    if (typeof pattern === 'string') return pattern;
    throw typeError(origin, value, 'a path or a list of paths');
  });
}

function absolute(pattern: string, from: string): string {
  const expanded = pattern.replace(/^~(?=\/|$)/, homedir());
  return path.resolve(path.dirname(from), expanded);
}
