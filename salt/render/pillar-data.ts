import { isDeepStrictEqual } from 'node:util';
import type { MergeStrategy } from '#config';
import { MasterError, type PillarRequest } from '#master';
import { type FactMap, pythonStr, type WireMap, type WireValue } from '#minion-protocol';
import { JsonError, parseJson } from '#runtime';
import { Float, type PlainData, parseTemplate, type Template, TemplateError } from '#template';

/** What counts as nothing in Python. */
export function isEmpty(data: PlainData): boolean {
  if (typeof data === 'object' && data !== null) {
    if (Array.isArray(data)) return data.length === 0;
    return data instanceof Map && data.size === 0;
  }
  return data === null || data === false || data === 0 || data === '';
}

/**
 * What is wrong with a file, for whoever may know.
 * @throws what is no fault of the file
 */
export function reasonOf(error: unknown): string {
  if (error instanceof TemplateError || error instanceof MasterError) return error.message;
  throw error;
}

// Pillar data as sent.

/** A float without a fraction is sent as an integer: our MessagePack knows one kind of number. */
export function toWire(data: PlainData): WireValue {
  if (typeof data !== 'object' || data === null) return data;
  if (data instanceof Float) return data.value;
  if (data instanceof Uint8Array) return data;
  return isPillarMap(data) ? toWirePillar(data) : listOf(data).map(toWire);
}

/** A value as Python's `str` prints it. */
export function textOf(data: PlainData): string {
  return pythonStr(toWire(data));
}

/** A map: an object, unless keys are no text, or an object would change their order. */
export function toWirePillar(pillar: PillarMap): FactMap {
  const entries = Array.from(pillar, ([key, value]): [WireValue, WireValue] => {
    return [toWire(key), toWire(value)];
  });
  if (!entries.every(([key]) => typeof key === 'string' && !/^\d+$/.test(key))) {
    return new Map(entries);
  }
  const map: WireMap = Object.create(null);
  for (const [key, value] of entries) map[String(key)] = value;
  return map;
}

function listOf(data: PlainData): readonly PlainData[] {
  return Array.isArray(data) ? data : [];
}

/** What a minion sent, as pillar data. */
export function fromWire(value: WireValue): PlainData {
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Uint8Array) return value;
  if (Array.isArray(value)) return value.map(fromWire);
  if (value instanceof Map) {
    return new Map(Array.from(value, ([key, inner]) => [fromWire(key), fromWire(inner)]));
  }
  return new Map(Object.entries(value).map(([key, inner]) => [key, fromWire(inner)]));
}

// Merging [salt/utils/dictupdate.py].

/** A map of pillar data. Maps are never changed: what is merged is made anew. */
export type PillarMap = ReadonlyMap<PlainData, PlainData>;

/** How {@link mergePillar} merges. */
export interface MergeOptions {
  readonly strategy: MergeStrategy;
  /** `pillar_merge_lists`: lists are joined, without what is there already. */
  readonly mergeLists: boolean;
}

/** Whether data are a map. */
export function isPillarMap(data: PlainData | undefined): data is PillarMap {
  return data instanceof Map;
}

/** `upper` over `lower`, as the strategy says. */
export function mergePillar(
  lower: PillarMap,
  upper: PillarMap,
  { strategy, mergeLists }: MergeOptions,
): PillarMap {
  switch (strategy) {
    case 'list':
      return pairUp(lower, upper);
    // Salt joins the first level only, whatever its name promises.
    case 'aggregate':
    case 'overwrite':
      return new Map([...lower, ...upper]);
    case 'none':
      return mergeDeep(lower, upper, false);
    case 'smart':
    case 'recurse':
      return mergeDeep(lower, upper, mergeLists);
  }
}

/** `upper` over `lower`, maps level by level. @param mergeLists whether lists are joined */
export function mergeDeep(lower: PillarMap, upper: PillarMap, mergeLists: boolean): PillarMap {
  const merged = new Map(lower);
  for (const [key, value] of upper) merged.set(key, mergeValue(merged.get(key), value, mergeLists));
  return merged;
}

function mergeValue(
  lower: PlainData | undefined,
  upper: PlainData,
  mergeLists: boolean,
): PlainData {
  if (isPillarMap(lower) && isPillarMap(upper)) return mergeDeep(lower, upper, mergeLists);
  return mergeLists && Array.isArray(lower) && Array.isArray(upper)
    ? joinLists(lower, upper)
    : upper;
}

/** What is in the first list already is not added. */
function joinLists(lower: readonly PlainData[], upper: readonly PlainData[]): PlainData[] {
  const simple = new Set(lower.map(simpleMark));
  const added = upper.filter((value) => {
    const mark = simpleMark(value);
    return mark === undefined
      ? !lower.some((item) => isDeepStrictEqual(item, value))
      : !simple.has(mark);
  });
  return [...lower, ...added];
}

/** Equal for what is equal in Python; `undefined` for lists, maps and bytes. */
function simpleMark(value: PlainData): unknown {
  if (typeof value === 'boolean') return value ? 1 : 0;
  if (value instanceof Float) return value.value;
  return typeof value === 'object' && value !== null ? undefined : value;
}

/** Salt's strategy `list`: of each key that both have, the two values; what only `upper` has is lost. */
function pairUp(lower: PillarMap, upper: PillarMap): PillarMap {
  const paired = new Map<PlainData, PlainData>();
  for (const [key, value] of lower) {
    const other = upper.get(key);
    paired.set(key, other === undefined ? value : [value, other]);
  }
  return paired;
}

/** A pillar with that of a command line (`pillar=`) over it, and under it, as Salt has it. */
export function mergeOverride(pillar: FactMap, override: WireMap, options: MergeOptions): FactMap {
  if (Object.keys(override).length === 0) return pillar;
  const [lower, upper] = [fromWire(pillar), fromWire(override)];
  if (!isPillarMap(lower) || !isPillarMap(upper)) return pillar;
  return toWirePillar(mergePillar(mergePillar(upper, lower, options), upper, options));
}

/**
 * Reads JSON as data.
 * @throws TemplateError ERR_YAML, the code of a text that holds no data
 */
export function parseJsonData(text: string, name: string): PlainData {
  try {
    return toData(parseJson(text));
  } catch (cause) {
    if (!(cause instanceof SyntaxError || cause instanceof JsonError)) throw cause;
    const isBeyondBounds = cause instanceof JsonError && cause.reason !== 'syntax';
    throw new TemplateError('ERR_YAML', {
      place: { file: name, line: lineOf(cause, text) },
      kind: 'JSONDecodeError',
      detail: isBeyondBounds ? cause.message : 'this is not JSON',
      cause,
    });
  }
}

/** Of keys that are there twice the last one counts, as in Python. */
function toData(parsed: unknown): PlainData {
  if (typeof parsed === 'number' || typeof parsed === 'bigint') return parsed;
  if (typeof parsed === 'string' || typeof parsed === 'boolean') return parsed;
  if (Array.isArray(parsed)) return parsed.map(toData);
  if (typeof parsed !== 'object' || parsed === null) return null;
  return new Map(Object.entries(parsed).map(([key, value]) => [key, toData(value)]));
}

/** The engine tells the position in its message, and nowhere else. */
function lineOf({ message }: Error, text: string): number {
  const [, position] = /(?:at position|see character) (\d+)/.exec(message) ?? [];
  return text.slice(0, Number(position ?? text.length)).split('\n').length;
}

/** What tells a file that was read from all others. */
export interface SourceText {
  /** Below its root. */
  readonly path: string;
  /** Tells this content from every other. */
  readonly digest: string;
  readonly text: string;
}

/** A file as it was when it was read. */
export interface SourceFile extends SourceText {
  /** Parsed once. @throws TemplateError */
  template(): Template;
}

/** How templates are read. */
export interface TemplateWhitespace {
  /** `jinja_trim_blocks`. */
  readonly trimBlocks: boolean;
  /** `jinja_lstrip_blocks`. */
  readonly lstripBlocks: boolean;
}

/** @param onParse called before it is parsed */
export function toSourceFile(
  { path, digest, text }: SourceText,
  whitespace: TemplateWhitespace,
  onParse: () => void = () => {},
): SourceFile {
  let template: Template | undefined;
  return {
    path,
    digest,
    text,
    template: () => {
      if (template !== undefined) return template;
      onParse();
      template = parseTemplate(text, { ...whitespace, name: path });
      return template;
    },
  };
}

// SLS names in templates [salt/utils/templates.py generate_sls_context].

/** @param file below its root: `web/init.sls` */
export function slsNames(file: string): Readonly<Record<string, string>> {
  const directory = file.includes('/') ? file.slice(0, file.lastIndexOf('/')) : '';
  return {
    slspath: directory,
    slsdotpath: directory.replaceAll('/', '.'),
    slscolonpath: directory.replaceAll('/', ':'),
    sls_path: directory.replaceAll('/', '_'),
  };
}

// Data of SLS.

export function isList(data: PlainData | undefined): data is readonly PlainData[] {
  return Array.isArray(data);
}

// What the sources of pillar answer.

/** A minion's pillar, with what of it the minion's own word has no part in. */
export interface PillarAnswer {
  readonly pillar: FactMap;
  /** The pillar that it would have without its grains: all that rights may go by [THREATS M-09]. */
  readonly proven: FactMap;
}

/** Gives minions their pillar. */
export interface PillarSource {
  /** @param lower what templates see as `pillar`. Default: nothing */
  provide(request: PillarRequest, lower?: PillarMap): Promise<PillarAnswer>;
  /** A pillar file by file, made for whoever wants to know; a program's has no files. */
  compile?(request: PillarRequest, lower?: PillarMap): Promise<CompiledPillar>;
}

/** A pillar as it was made. */
export interface CompiledPillar {
  /** Without `_errors`. */
  readonly pillar: PillarMap;
  /** What minions are told in `_errors`; none: all went well. */
  readonly errors: readonly string[];
  /** What went wrong, in full, for the log. */
  readonly failures: readonly unknown[];
  /** What the top files give this minion. */
  readonly matches: Matches;
  /** Each file that gave data, in the order in which they lie over each other. */
  readonly layers: readonly PillarLayer[];
}

/** The data that one file gave by itself, under the keys that it was included under. */
export interface PillarLayer {
  readonly saltenv: string;
  readonly sls: string;
  readonly file: SourceFile;
  readonly data: PillarMap;
}

/** The SLS that a minion gets, by environment, in order. */
export type Matches = ReadonlyMap<string, readonly string[]>;
