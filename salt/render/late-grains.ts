/**
 * Late grains: grains that a template can print without reading them. In the rendered text, a
 * placeholder (mark) stands for each printed value. The values are filled in for each minion.
 * Minions that differ only in these values therefore share one rendering.
 */

import { type FactMap, isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import { LateValue, type PlainData, readLate, resolveTag, type Value } from '#template';
import { tryItem } from '#template/python/subscripts.ts';
import { isList, isPillarMap } from './pillar-data.ts';

/** Rules for late grains. They can be sent to a rendering thread. */
export interface LateRules {
  /** Names of the grains. */
  readonly names: readonly string[];
  /**
   * Beginning of all marks: random letters and digits, so that no text of a minion contains it. It
   * begins with letters that have no meaning in escape sequences of YAML or JSON.
   */
  readonly secret: string;
}

/** Path of a late value: the name of a grain, and keys or indexes below it. */
export type LatePath = readonly (string | number)[];

/**
 * Matches values that can replace a mark at any place of YAML or JSON without changing its
 * structure.
 */
const safe = /^[A-Za-z0-9](?:[A-Za-z0-9._:-]{0,251}[A-Za-z0-9])?$/;

/** Returns the beginning of a mark in plain scalars of YAML, or in other texts. */
function markStart(secret: string, isPlain: boolean): string {
  return `${secret}${isPlain ? 'p' : 'q'}`;
}

/** Returns the beginnings of marks, for the YAML parser. */
export function textMarks(secret: string): { readonly text: string; readonly plain: string } {
  return { text: markStart(secret, false), plain: markStart(secret, true) };
}

function marksIn(secret: string): RegExp {
  return new RegExp(`${secret}([pq])(\\d+)z`, 'g');
}

/** Marks that one rendering of a template has printed. */
export class PrintedMarks {
  /** Path of each mark, by its number. */
  readonly paths: LatePath[] = [];
  readonly #rules: LateRules;
  readonly #onMark: (grain: string) => void;

  /** @param onMark called with the name of the grain for each mark */
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

/** Object through which a template gets a grain. It records when the grain is read. */
export interface LateOrigin {
  readonly marks: PrintedMarks;
  /** Whether the value was read, so that the template may have changed it. */
  readonly isRead: () => boolean;
  readonly read: () => Value;
}

/** A grain, or a value inside a grain, that was not read yet. */
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

  /** Returns a value as a late value. Returns `undefined` for a value that must be read. */
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
    // A text cannot be changed in place, so the text of the moment of the look-up is used.
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

/** Returns the text of a minion for a late path, or `undefined` if it must not be filled in. */
function lateTextAt(grains: WireMap, path: LatePath): string | undefined {
  const value = path.reduce<WireValue | undefined>(itemOf, grains);
  return isSafe(value) ? value : undefined;
}

/** A text with marks, as a template printed it. */
export interface MarkedText {
  readonly text: string;
  /** Path of each mark, by its number. */
  readonly late: readonly LatePath[];
}

/** Late paths of one compiled pillar. */
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

/** Conditions under which marks can stay in the data of a file. */
export interface MarkRules {
  readonly secret: string;
  /** Whether lists are merged, and therefore compared. */
  readonly mergeLists: boolean;
}

/**
 * Renumbers the marks in parsed data by the paths of a whole pillar. Returns `undefined` if some
 * values must be known before the data is used: keys, includes, compared lists, and values that
 * disappeared from the data in another place than a comment.
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

/** Whether a mark is in a line that is a comment, before the last line. */
function isInComment(text: string, mark: string): boolean {
  const at = text.indexOf(mark);
  const line = text.slice(text.lastIndexOf('\n', at) + 1, at);
  return at >= 0 && text.includes('\n', at) && /^[ \t]*#/.test(line);
}

/**
 * Fills in the late values of a minion. Returns `undefined` if a value could change the meaning of
 * the YAML text, for example a number in a plain scalar. The minion then needs its own rendering.
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
