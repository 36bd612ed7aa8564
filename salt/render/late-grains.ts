/**
 * Late grains: grains that a template can print without reading them. The rendered text contains a
 * placeholder (`mark` in the code) instead of each printed value. The master then replaces the
 * placeholders with the values of each minion. Minions that differ only in these values therefore
 * share one rendering.
 */

import { type FactMap, isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import { LateValue, type PlainData, readLate, resolveTag, type Value } from '#template';
import { tryItem } from '#template/python/subscripts.ts';
import { isList, isPillarMap } from './pillar-data.ts';

/**
 * Names of the late grains, and the form of their placeholders. Templates print a placeholder for
 * each late grain, and its value is inserted after the rendering. The object can be sent to a
 * rendering thread.
 */
export interface LateRules {
  /**
   * Names of the grains whose values are replaced by placeholders until the rendering has ended.
   */
  readonly names: readonly string[];
  /**
   * Random letters and digits with which all placeholders begin. They are random so that a minion
   * cannot send a text that contains a placeholder. The first letters are chosen so that no escape
   * sequence of YAML or JSON begins with them.
   */
  readonly secret: string;
}

/**
 * Path of a grain value that a placeholder stands for: the name of the grain, and the keys or
 * indexes inside it.
 */
export type LatePath = readonly (string | number)[];

/**
 * Matches texts that can replace a placeholder in YAML or JSON without changing the structure of
 * the document.
 */
const safe = /^[A-Za-z0-9](?:[A-Za-z0-9._:-]{0,251}[A-Za-z0-9])?$/;

/**
 * Returns the beginning of the placeholders in a text.
 * @param isPlain - whether the text is a plain (unquoted) scalar of YAML
 */
function markStart(secret: string, isPlain: boolean): string {
  return `${secret}${isPlain ? 'p' : 'q'}`;
}

/**
 * Returns the text with which placeholders begin, for the YAML parser. `plain` is for placeholders
 * in plain (unquoted) scalars, `text` for placeholders in other texts.
 */
export function textMarks(secret: string): { readonly text: string; readonly plain: string } {
  return { text: markStart(secret, false), plain: markStart(secret, true) };
}

function marksIn(secret: string): RegExp {
  return new RegExp(`${secret}([pq])(\\d+)z`, 'g');
}

/**
 * Placeholders in the output of one rendering of a template. Each stands for a grain whose value is
 * filled in later.
 */
export class PrintedMarks {
  /** Paths of grain values, by the number of the placeholder that stands for the value. */
  readonly paths: LatePath[] = [];
  readonly #rules: LateRules;
  readonly #onMark: (grain: string) => void;

  /** @param onMark - called for each placeholder, with the name of its grain */
  constructor(rules: LateRules, onMark: (grain: string) => void) {
    this.#rules = rules;
    this.#onMark = onMark;
  }

  isLate(grain: string): boolean {
    return this.#rules.names.includes(grain);
  }

  add(path: LatePath): string {
    this.#onMark(String(path[0]));
    this.paths.push(path);
    return `${markStart(this.#rules.secret, false)}${this.paths.length - 1}z`;
  }
}

/** Grain that a template uses. Calling `read` records that the grain was read. */
export interface LateOrigin {
  readonly marks: PrintedMarks;
  /**
   * Whether the template has read the value of the grain, and may therefore have changed it. If so,
   * items of the value are no longer printed as placeholders.
   */
  readonly isRead: () => boolean;
  readonly read: () => Value;
}

/** A grain, or a value inside a grain, before it is read. */
export class LateGrain extends LateValue {
  readonly #path: LatePath;
  readonly #value: WireValue;
  readonly #origin: LateOrigin;
  readonly #parent: LateGrain | undefined;

  private constructor(
    path: LatePath,
    value: WireValue,
    origin: LateOrigin,
    parent: LateGrain | undefined,
  ) {
    super();
    this.#path = path;
    this.#value = value;
    this.#origin = origin;
    this.#parent = parent;
  }

  /**
   * Creates a late value: a grain's value for which a template can print a placeholder, so that it
   * need not read the value. Returns `undefined` if the template must read the value.
   */
  static of(
    path: LatePath,
    value: WireValue | undefined,
    origin: LateOrigin,
    parent?: LateGrain,
  ): LateGrain | undefined {
    const isLate = isSafe(value) || Array.isArray(value) || isWireMap(value);
    return isLate ? new LateGrain(path, value, origin, parent) : undefined;
  }

  read(): Value {
    const parent = this.#parent;
    if (parent === undefined) return this.#origin.read();
    const inside = tryItem(parent.read(), this.#path.at(-1) ?? null);
    // Templates cannot change a text in place, so the text from the look-up is still valid.
    return typeof this.#value === 'string' ? this.#value : readLate(inside ?? null);
  }

  mark(): string | undefined {
    return typeof this.#value === 'string' ? this.#origin.marks.add(this.#path) : undefined;
  }

  child(key: Value): LateGrain | undefined {
    if (this.#origin.isRead() || (typeof key !== 'string' && typeof key !== 'number')) {
      return undefined;
    }
    return LateGrain.of([...this.#path, key], itemOf(this.#value, key), this.#origin, this);
  }
}

function isSafe(value: WireValue | undefined): value is string {
  return typeof value === 'string' && safe.test(value);
}

function itemOf(value: WireValue | undefined, key: string | number): WireValue | undefined {
  if (Array.isArray(value)) return typeof key === 'number' && key >= 0 ? value[key] : undefined;
  if (typeof key !== 'string' || value instanceof Map || !isWireMap(value)) return undefined;
  return Object.hasOwn(value, key) ? value[key] : undefined;
}

/**
 * Returns the text at this path in a minion's grains, which replaces a placeholder. Returns
 * `undefined` if the value at the path is not safe to insert.
 */
function lateTextAt(grains: WireMap, path: LatePath): string | undefined {
  const value = path.reduce<WireValue | undefined>(itemOf, grains);
  return isSafe(value) ? value : undefined;
}

/** Output of a template, with placeholders. */
export interface MarkedText {
  readonly text: string;
  /**
   * Paths of the grain values for which the placeholders stand, by the number of the placeholder.
   */
  readonly late: readonly LatePath[];
}

/** Paths of the values in one compiled pillar that are printed as placeholders. */
export class LatePaths {
  readonly paths: LatePath[] = [];
  readonly #places = new Map<string, number>();

  /** Returns the number of a path. Adds the path if it is new. */
  add(path: LatePath): number {
    const name = JSON.stringify(path);
    const known = this.#places.get(name);
    if (known !== undefined) return known;
    this.#places.set(name, this.paths.length);
    this.paths.push(path);
    return this.paths.length - 1;
  }
}

/**
 * Settings with which {@link numberMarks} finds placeholders, and decides whether they are
 * permitted where they are.
 */
export interface MarkRules {
  readonly secret: string;
  /**
   * Whether lists are merged. Merging compares the items of lists, so no item may be a placeholder.
   */
  readonly mergeLists: boolean;
}

/**
 * Renumbers the placeholders in the parsed data of a file, so that the numbers are unique in the
 * whole pillar. Returns `undefined` if the file must be rendered again with the real values. This
 * is necessary in two cases:
 * - A placeholder is in a key, in `include`, or in a list that is merged.
 * - The parsed data lacks a placeholder that the text contains outside comments.
 */
export function numberMarks(
  data: PlainData,
  { text, late }: MarkedText,
  { secret, mergeLists }: MarkRules,
  paths: LatePaths,
): PlainData | undefined {
  const found = new Set<number>();
  let isUnusable = false;
  const marks = marksIn(secret);
  const renumber = (value: PlainData, isCompared: boolean): PlainData => {
    if (typeof value === 'string') {
      if (!value.includes(secret)) return value;
      if (isCompared) isUnusable = true;
      return value.replace(marks, (_mark, kind: string, place: string) => {
        found.add(Number(place));
        return `${secret}${kind}${paths.add(late[Number(place)] ?? [])}z`;
      });
    }
    if (isList(value)) return value.map((item) => renumber(item, isCompared || mergeLists));
    if (!isPillarMap(value)) return value;
    return new Map(
      Array.from(value, ([key, item]) => [renumber(key, true), renumber(item, isCompared)]),
    );
  };
  const numbered = isPillarMap(data)
    ? new Map(
        Array.from(data, ([key, value]) => [
          renumber(key, true),
          renumber(value, key === 'include'),
        ]),
      )
    : renumber(data, false);
  for (const place of late.keys()) {
    if (!found.has(place) && !isInComment(text, `${markStart(secret, false)}${place}z`)) {
      return undefined;
    }
  }
  return isUnusable ? undefined : numbered;
}

/** Whether a placeholder is in a comment line that ends with a line break. */
function isInComment(text: string, mark: string): boolean {
  const at = text.indexOf(mark);
  const line = text.slice(text.lastIndexOf('\n', at) + 1, at);
  return at >= 0 && text.includes('\n', at) && /^[ \t]*#/.test(line);
}

/**
 * Replaces the placeholders with the values of a minion. Returns `undefined` if a value could
 * change the structure or a type in the YAML text, for example a number in a plain scalar. The file
 * must then be rendered for this minion alone.
 */
export function fillMarks(
  pillar: FactMap,
  grains: WireMap,
  { secret, paths }: { readonly secret: string; readonly paths: readonly LatePath[] },
): FactMap | undefined {
  if (paths.length === 0) return pillar;
  const texts = paths.map((path) => lateTextAt(grains, path));
  if (texts.includes(undefined)) return undefined;
  const marks = marksIn(secret);
  let isTyped = false;
  const fillText = (text: string): string => {
    if (!text.includes(secret)) return text;
    let isPlain = false;
    const filled = text.replace(marks, (_mark, kind: string, place: string) => {
      if (kind === 'p') isPlain = true;
      return texts[Number(place)] ?? '';
    });
    if (isPlain && !isTextTag(filled)) isTyped = true;
    return filled;
  };
  const fill = (value: WireValue): WireValue => {
    if (typeof value === 'string') return fillText(value);
    if (Array.isArray(value)) return value.map(fill);
    if (value instanceof Map) return fillMap(value);
    return isWireMap(value) ? fillObject(value) : value;
  };
  const fillMap = (map: ReadonlyMap<WireValue, WireValue>): Map<WireValue, WireValue> =>
    new Map(Array.from(map, ([key, value]) => [key, fill(value)]));
  const fillObject = (map: WireMap): WireMap => {
    const filled: WireMap = Object.create(null);
    for (const [key, value] of Object.entries(map)) filled[key] = fill(value);
    return filled;
  };
  const filled = pillar instanceof Map ? fillMap(pillar) : fillObject(pillar);
  return isTyped ? undefined : filled;
}

function isTextTag(text: string): boolean {
  const tag = resolveTag(text);
  return tag === 'str' || tag === 'timestamp';
}
