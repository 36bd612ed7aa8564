import { lstat, readdir } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';
import {
  type Document,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  type Pair,
  parseDocument,
  type Scalar,
  visit,
  type YAMLMap,
} from 'yaml';
import {
  describeSystemError,
  errorMessage,
  ifPresent,
  isMissing,
  readRegularFile,
  type ValuePath,
} from '#runtime';
import { compileGlob } from '#template/python/fnmatch.ts';
import { Float } from '#template/python/values.ts';
import { correctLastBlock, pythonTags } from '#template/python/yaml-nodes.ts';
import { ConfigError, type ConfigWarning, type OptionOrigin, typeError } from './config-error.ts';
import { withoutCredentials } from './credentials.ts';
import { configLimits } from './limits.ts';
import { parsedOnce } from './parsed-texts.ts';
import { mergeSettings, overrideSettings, type Setting, type Settings } from './settings.ts';
import { describeYamlProblem, markPosition } from './yaml-problem.ts';

const defaultInclude = 'master.d/*.conf';

/** Options of the YAML parser, so that it reads a configuration as Salt does. */
const saltYaml = { version: '1.1', schema: 'failsafe', customTags: pythonTags } as const;

/** Merged options of all files. */
export interface FileSettings {
  readonly settings: Settings;
  /** Files in the order of reading. */
  readonly files: readonly string[];
  readonly warnings: readonly ConfigWarning[];
}

/** Options of {@link readConfigFiles}. */
export interface ConfigReading {
  /**
   * Called for each invalid file, which is then skipped. Default: the first problem is thrown.
   */
  readonly onProblem?: (problem: ConfigError) => void;
  /**
   * Returns the name by which error messages and other locations of options refer to a file.
   * Default: the path of the file.
   */
  readonly nameOf?: (file: string) => string;
}

/**
 * Reads a main file, then the files in its `default_include`, then the files in its `include`.
 * Later values take precedence [salt.config.master_config].
 * @throws ConfigError ERR_CONFIG_READ, ERR_CONFIG_SYNTAX, ERR_OPTION_TYPE
 */
export async function readConfigFiles(
  mainFile: string,
  reading: ConfigReading = {},
): Promise<FileSettings> {
  const reader = new FileReader(reading);
  const settings = await reader.attempt(() => reader.readMain(mainFile));
  const standard = settings.get('default_include');
  const included = settings.get('include');
  const standardFiles = await reader.attempt(() => {
    const patterns = standard === undefined ? [defaultInclude] : patternsOf(standard);
    const place = { file: reader.nameOf(mainFile), line: 0, key: 'default_include' };
    return reader.include(patterns, { file: mainFile, origin: standard?.origin ?? place }, []);
  });
  const standardSettings = overrideSettings(settings, standardFiles);
  const whole =
    included === undefined
      ? standardSettings
      : overrideSettings(
          standardSettings,
          await reader.attempt(() => reader.includeOf(included, mainFile, [])),
        );
  return { settings: whole, files: reader.files, warnings: reader.warnings };
}

/** File that includes others, and the location of its option `include` or `default_include`. */
interface IncludingFile {
  readonly file: string;
  readonly origin: OptionOrigin;
}

class FileReader {
  readonly nameOf: (file: string) => string;
  readonly files: string[] = [];
  readonly warnings: ConfigWarning[] = [];
  readonly #onProblem: ((problem: ConfigError) => void) | undefined;

  constructor({ onProblem, nameOf = (file) => file }: ConfigReading) {
    this.#onProblem = onProblem;
    this.nameOf = nameOf;
  }

  /**
   * Reads settings. If this fails and there is a listener for problems, passes the problem to the
   * listener and returns no settings.
   */
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
      const origin = { file: this.nameOf(file), line: 0, key: '' };
      const message = `${origin.file} does not exist; defaults apply`;
      this.warnings.push({ kind: 'missing-file', ...origin, message });
      return new Map();
    }
  }

  /** Reads the files that an `include:` names. Adds a warning for each pattern without matches. */
  async includeOf(setting: Setting, file: string, trail: readonly string[]): Promise<Settings> {
    const { origin } = setting;
    const patterns = patternsOf(setting);
    for (const pattern of patterns) {
      if ((await expandGlob(absolute(pattern, file))).length > 0) continue;
      const message = `${origin.file}:${origin.line}: include: ${pattern} matches no file`;
      this.warnings.push({ kind: 'nothing-included', ...origin, message });
    }
    return await this.include(patterns, { file, origin }, trail);
  }

  async include(
    patterns: readonly string[],
    including: IncludingFile,
    trail: readonly string[],
  ): Promise<Settings> {
    let merged: Settings = new Map();
    for (const pattern of patterns) {
      for (const file of await expandGlob(absolute(pattern, including.file))) {
        const read = (): Promise<Settings> =>
          this.#readIncluded(file, including.origin, [...trail, including.file]);
        merged = mergeSettings(merged, await this.attempt(read));
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
      const problem = `${this.nameOf(file)} includes itself, directly or through other files; remove one of these includes`;
      throw new ConfigError('ERR_CONFIG_READ', origin, problem);
    }
    const settings = await this.#read(file);
    const inner = settings.get('include');
    if (inner === undefined) return settings;
    return overrideSettings(settings, await this.attempt(() => this.includeOf(inner, file, trail)));
  }

  async #read(file: string): Promise<Settings> {
    let text: string;
    try {
      text = (await readRegularFile(file, configLimits.configFileBytes)).toString();
    } catch (cause) {
      const origin = { file: this.nameOf(file), line: 0, key: '' };
      const reason = describeSystemError(cause) === undefined ? `: ${errorMessage(cause)}` : '';
      throw new ConfigError('ERR_CONFIG_READ', origin, `the file cannot be read${reason}`, {
        cause,
      });
    }
    this.files.push(file);
    return parsedOnce(text, this.nameOf(file), parseConfigFile);
  }
}

const pathsForm = 'a path or a list of paths';

function patternsOf({ value, origin }: Setting): string[] {
  if (value === null || value === '') return [];
  const list: unknown[] = Array.isArray(value) ? value : [value];
  return list.map((pattern) => {
    if (typeof pattern === 'string') return pattern;
    throw typeError(origin, value, pathsForm);
  });
}

function absolute(pattern: string, from: string): string {
  const expanded = pattern.replace(/^~(?=\/|$)/, homedir());
  return path.resolve(path.dirname(from), expanded);
}

/**
 * Parses a configuration file. Reads YAML 1.1 (`yes`, `off`, `0777`) like PyYAML's safe loader, but
 * rejects duplicate keys.
 * @param file - path of the file, for the locations of values
 * @throws ConfigError ERR_CONFIG_SYNTAX
 */
export function parseConfigFile(text: string, file: string): Settings {
  const lines = new LineCounter();
  const document = parseDocument(text, { ...saltYaml, uniqueKeys: true, lineCounter: lines });
  const [problem] = [...document.errors, ...document.warnings];
  if (problem !== undefined) {
    // Omit the parser's message, because it quotes the line, which may contain a secret.
    const position = lines.linePos(problem.pos[0]);
    const words = `invalid YAML: ${describeYamlProblem(problem)} (${problem.code})`;
    throw syntaxError(file, position.line, words, markPosition(text, position));
  }
  correctLastBlock(document, text);
  visit(document, { Scalar: useNumber });
  const content = toJs(document, file);
  if (content === null) return new Map();
  if (!(content instanceof Map))
    throw syntaxError(file, 1, 'the configuration file must contain a map of options');
  return toSettings(content, [], (path) => ({
    file,
    line: lineOf(document, lines, path),
    ...nameOf(path),
  }));
}

/**
 * Replaces a float without a fraction by an ordinary number, because options do not distinguish 1.0
 * from 1.
 */
function useNumber(_place: unknown, node: Scalar): void {
  if (node.value instanceof Float) node.value = node.value.value;
}

function toJs(document: Document, file: string): unknown {
  try {
    return document.toJS({ mapAsMap: true });
  } catch {
    const problem =
      'an alias (*name) has no anchor, or aliases expand without limit; put text that begins with * in quotes';
    throw syntaxError(file, 0, problem);
  }
}

type OriginAt = (path: ValuePath) => OptionOrigin;

function toSettings(
  map: ReadonlyMap<unknown, unknown>,
  path: ValuePath,
  originAt: OriginAt,
): Settings {
  const settings = new Map<string, Setting>();
  for (const [key, value] of map) {
    const name = String(key);
    settings.set(name, toSetting(value, [...path, name], originAt));
  }
  return settings;
}

function toSetting(value: unknown, path: ValuePath, originAt: OriginAt): Setting {
  const origin = originAt(path);
  if (value instanceof Map) return { value: toSettings(value, path, originAt), origin };
  if (!Array.isArray(value)) return { value, origin };
  const entries = value.map((item, index) => toSetting(item, [...path, index], originAt));
  return { value, origin, entries };
}

/**
 * Splits the location of a value at its first list index. `key` consists of the names before this
 * index. `entry` is the part from this index on; without a list index, it is absent. Credentials in
 * names are removed, because a name may be the address of a repository.
 */
function nameOf(place: ValuePath): Pick<OptionOrigin, 'entry' | 'key'> {
  const path = place.map((it) => (typeof it === 'number' ? it : withoutCredentials(it)));
  const depth = path.findIndex((step) => typeof step === 'number');
  if (depth === -1) return { key: path.join(':') };
  const steps = path
    .slice(depth)
    .map((step) => (typeof step === 'number' ? `[${step}]` : `:${step}`));
  return { key: path.slice(0, depth).join(':'), entry: steps.join('') };
}

/**
 * Returns the line of a key or item. If the key or item comes from a YAML alias, returns the line
 * of the nearest key or item above it.
 */
function lineOf(document: Document, lines: LineCounter, path: ValuePath): number {
  let node: unknown = document.contents;
  let line = 1;
  for (const step of path) {
    const [found, value] = stepInto(node, step);
    const start = isNode(found) ? found.range?.[0] : undefined;
    if (found === undefined) return line;
    if (start !== undefined) line = lines.linePos(start).line;
    node = value;
  }
  return line;
}

/**
 * Returns a function that finds the line of a path in a YAML text. If the path does not exist, the
 * function finds the line of the nearest existing part.
 */
export function yamlLines(text: string): (path: ValuePath) => number {
  let read: { readonly document: Document; readonly lines: LineCounter } | undefined;
  return (path) => {
    if (read === undefined) {
      const lines = new LineCounter();
      read = { document: parseDocument(text, { ...saltYaml, lineCounter: lines }), lines };
    }
    return lineOf(read.document, read.lines, path);
  };
}

/** Pairs of each map, by key. With them, the line of a key in a large map is found quickly. */
const pairsOfMaps = new WeakMap<YAMLMap, ReadonlyMap<string, Pair>>();

/** Returns the first pair of each scalar key of a map. The map must not change afterwards. */
function pairsOf(map: YAMLMap): ReadonlyMap<string, Pair> {
  const known = pairsOfMaps.get(map);
  if (known !== undefined) return known;
  const pairs = new Map<string, Pair>();
  for (const pair of map.items) {
    if (!isScalar(pair.key)) continue;
    const name = String(pair.key.value);
    if (!pairs.has(name)) pairs.set(name, pair);
  }
  pairsOfMaps.set(map, pairs);
  return pairs;
}

/**
 * Finds the child of a node by its key or index. Returns two nodes: `found`, which has the line of
 * the child, and `value`, which has the value of the child. Both are `undefined` if there is no
 * such child.
 */
function stepInto(node: unknown, step: string | number): readonly [found: unknown, value: unknown] {
  if (typeof step === 'number')
    return isSeq(node) ? [node.items[step], node.items[step]] : [undefined, undefined];
  const pair = isMap(node) ? pairsOf(node).get(step) : undefined;
  return [pair?.key, pair?.value];
}

function syntaxError(file: string, line: number, problem: string, excerpt?: string): ConfigError {
  const more = excerpt === undefined ? {} : { excerpt };
  return new ConfigError('ERR_CONFIG_SYNTAX', { file, line, key: '' }, problem, more);
}

/**
 * Returns the sorted files that match an absolute path with globs, or an empty list. As in Python's
 * `glob`, only a pattern that begins with a dot matches a name that begins with a dot.
 */
export async function expandGlob(pattern: string): Promise<string[]> {
  const { root } = path.parse(pattern);
  let found = [root];
  for (const segment of pattern.slice(root.length).split(path.sep)) {
    if (segment === '') continue;
    const next = await Promise.all(found.map((directory) => expandSegment(directory, segment)));
    found = next.flat();
  }
  return found.sort();
}

async function expandSegment(directory: string, segment: string): Promise<string[]> {
  if (!/[*?[]/.test(segment)) {
    const file = path.join(directory, segment);
    return (await exists(file)) ? [file] : [];
  }
  const matches = compileGlob(segment);
  const names = (await ifPresent(readdir(directory))) ?? [];
  return names
    .filter((name) => matches(name) && (!name.startsWith('.') || segment.startsWith('.')))
    .map((name) => path.join(directory, name));
}

async function exists(file: string): Promise<boolean> {
  return await lstat(file).then(
    () => true,
    () => false,
  );
}

/** Returns the file that Salt's master reads first. */
export function mainFileOf(directory: string): string {
  return path.resolve(directory, 'master');
}
