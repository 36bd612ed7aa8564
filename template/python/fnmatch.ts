/**
 * Compiles globs like Python's `fnmatch.fnmatchcase`, as used in Salt's targets, key commands and
 * autosign files. Supports `*`, `?`, `[abc]`, `[a-c]` and `[!abc]`. There are no escapes, and `/`
 * and `.` are ordinary characters.
 */

import type { WorkBudget, WorkMeter } from '#runtime';

/**
 * A set of characters: code points as sorted ranges that do not touch. If `isNegated` is true, the
 * set contains all other code points.
 */
interface CharacterSet {
  readonly ranges: readonly (readonly [from: number, to: number])[];
  readonly isNegated: boolean;
}

/** Element of a glob: a certain character, any character, or one character of a set. */
type Unit = string | 'any' | CharacterSet;

/** Part of a glob between two stars. */
interface Segment {
  readonly units: readonly (Unit | undefined)[];
  /** Text of a segment without wildcards; otherwise `undefined`. */
  readonly literal: string | undefined;
}

const anyCharacter = 'any';
/**
 * Number of characters that count as one step of work when JavaScript's string functions compare
 * them.
 */
const charactersPerStep = 16;
/** Maximum length of a glob with wildcards from a client or minion, in characters. */
const maxGlobLength = 16_384;
/**
 * Maximum length of a glob from a client or minion, in characters. It applies with and without
 * wildcards.
 */
const maxLiteralLength = 1_000_000;
const stepsOfCharacter = 4;
const bytesOfCharacter = 16;
/**
 * Number of bytes that the meter counts for each character in a set such as `[abc]`. The number is
 * high, so that the memory limit also limits the time for sorting the set.
 */
const bytesOfMember = 128;

/**
 * Compiles a glob to a function that tests whole texts. The time for the compilation grows linearly
 * with the length of the glob. If `*` is the only wildcard, the time for a test grows linearly with
 * the length of the text. Otherwise it can grow with the product of both lengths.
 * @param meter - counts the steps; needed if the glob comes from a client or minion
 */
export function compileGlob(pattern: string, meter?: WorkMeter): (text: string) => boolean {
  if (pattern.length > maxLiteralLength) meter?.refuse('a glob', maxLiteralLength, 'characters');
  meter?.spend('a glob', 1 + pattern.length / charactersPerStep);
  if (isLiteralGlob(pattern)) return (text) => text === pattern;
  if (pattern.length > maxGlobLength) meter?.refuse('a glob', maxGlobLength, 'characters');
  meter?.spend('a glob', pattern.length * stepsOfCharacter);
  meter?.hold('globs', pattern.length * bytesOfCharacter);
  const segments = parse(pattern, meter);
  const least = segments.reduce((sum, { units }) => sum + units.length, 0);
  return (text) => {
    meter?.spend('matching of a glob', 2 + text.length / charactersPerStep);
    return least <= text.length && matches(segments, text, meter);
  };
}

/** Whether a glob has no wildcards. Such a glob matches only a text that equals it. */
export function isLiteralGlob(pattern: string): boolean {
  return !/[*?[]/.test(pattern);
}

/**
 * Compiles globs to a function that tests whether at least one of them matches a text. Globs
 * without wildcards are looked up in a set, so their number does not affect the time of a test. The
 * compilation and the function regularly let other work run.
 * @throws WorkLimitExceeded if the globs take too much work. The compiled function can throw this
 * error too
 */
export async function compileGlobs(
  patterns: Iterable<string>,
  budget: WorkBudget,
): Promise<(text: string) => Promise<boolean>> {
  const texts = new Set<string>();
  const tests: ((text: string) => boolean)[] = [];
  for (const pattern of new Set(patterns)) {
    const test = compileGlob(pattern, budget);
    if (isLiteralGlob(pattern)) texts.add(pattern);
    else tests.push(test);
    if (budget.isSliceOver) await budget.giveWay();
  }
  return async (text) => {
    budget.spend('a list of globs', 1);
    if (budget.isSliceOver) await budget.giveWay();
    if (texts.has(text)) return true;
    for (const test of tests) {
      if (test(text)) return true;
      if (budget.isSliceOver) await budget.giveWay();
    }
    return false;
  };
}

const surrogate = /[\ud800-\udfff]/;

/**
 * Whether the text matches. Each segment is matched as early in the text as possible. This cannot
 * prevent a match of the following segments, so the search never goes back. Only the last segment
 * must match at the end of the text.
 */
function matches(segments: readonly Segment[], text: string, meter?: WorkMeter): boolean {
  const characters = surrogate.test(text) ? Array.from(text) : text;
  const [first] = segments;
  if (first === undefined || !startsAt(first, characters, 0)) return false;
  let at = first.units.length;
  const last = segments.length === 1 ? undefined : segments.at(-1);
  if (last === undefined) return at === characters.length;
  for (let index = 1; index < segments.length - 1; index += 1) {
    const segment = segments[index];
    meter?.spend('matching of a glob', 2);
    const found = segment === undefined ? -1 : find(segment, characters, at, meter);
    if (segment === undefined || found === -1) return false;
    at = found + segment.units.length;
  }
  const end = characters.length - last.units.length;
  return end >= at && startsAt(last, characters, end);
}

type Characters = string | readonly string[];

function startsAt({ units, literal }: Segment, text: Characters, at: number): boolean {
  if (literal !== undefined && typeof text === 'string') return text.startsWith(literal, at);
  if (at + units.length > text.length) return false;
  for (let index = 0; index < units.length; index += 1) {
    if (!accepts(units[index], text[at + index] ?? '')) return false;
  }
  return true;
}

/** Returns the first position at or after `from` where the segment matches, or -1. */
function find(segment: Segment, text: Characters, from: number, meter?: WorkMeter): number {
  const { units, literal } = segment;
  if (literal !== undefined && typeof text === 'string') return text.indexOf(literal, from);
  const last = text.length - units.length;
  let counted = from;
  for (let at = from; at <= last; at += 1) {
    if (at - counted >= countedPlaces || at === last) {
      meter?.spend('matching of a glob', ((at - counted + 1) * units.length) / unitsPerStep);
      counted = at;
    }
    if (startsAt(segment, text, at)) return at;
  }
  return -1;
}

/** Number of positions that are tried between two calls of the meter. */
const countedPlaces = 64;
/** Number of comparisons with a wildcard that count as one step of work. */
const unitsPerStep = 2;

function accepts(unit: Unit | undefined, character: string): boolean {
  if (typeof unit === 'string') return unit === anyCharacter || unit === character;
  return unit !== undefined && contains(unit, codePoint(character)) !== unit.isNegated;
}

function contains({ ranges }: CharacterSet, code: number): boolean {
  let low = 0;
  let high = ranges.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const [from = 0, to = 0] = ranges[middle] ?? [];
    if (code < from) high = middle - 1;
    else if (code > to) low = middle + 1;
    else return true;
  }
  return false;
}

function parse(pattern: string, meter?: WorkMeter): Segment[] {
  const characters = surrogate.test(pattern) ? Array.from(pattern) : pattern;
  const segments: Segment[] = [];
  let units: Unit[] = [];
  /** Whether the rest of the pattern contains no `]`, so that no further set can end. */
  let isLastSet = false;
  for (let index = 0; index < characters.length; ) {
    const character = characters[index] ?? '';
    const end = character === '[' && !isLastSet ? endOfSet(characters, index + 1) : -1;
    if (end !== -1) {
      meter?.hold('sets of globs', (end - index) * bytesOfMember);
      units.push(parseSet(characters.slice(index + 1, end)));
      index = end + 1;
      continue;
    }
    isLastSet ||= character === '[';
    index += 1;
    if (character === '*') {
      segments.push(segmentOf(units));
      units = [];
    } else {
      units.push(character === '?' ? anyCharacter : character);
    }
  }
  segments.push(segmentOf(units));
  // Several stars in a row mean the same as one, so the empty segments between them are removed.
  return segments.filter(
    ({ units: { length } }, index) => length > 0 || index === 0 || index === segments.length - 1,
  );
}

function segmentOf(units: readonly Unit[]): Segment {
  const isLiteral = units.every((unit) => typeof unit === 'string' && unit !== anyCharacter);
  return { units, literal: isLiteral ? units.join('') : undefined };
}

/**
 * Returns the index of the `]` that closes a set, or -1. Without a `]`, the `[` is an ordinary
 * character.
 */
function endOfSet(pattern: Characters, start: number): number {
  const first = pattern[start] === '!' ? start + 1 : start;
  return pattern.indexOf(']', first + 1);
}

function parseSet(content: Characters): CharacterSet {
  const isNegated = content[0] === '!';
  const ranges: (readonly [from: number, to: number])[] = [];
  for (let i = isNegated ? 1 : 0; i < content.length; i += 1) {
    const from = codePoint(content[i]);
    const isRange = content[i + 1] === '-' && i + 2 < content.length;
    const to = isRange ? codePoint(content[i + 2]) : from;
    if (from <= to) ranges.push([from, to]);
    if (isRange) i += 2;
  }
  return { ranges: joined(ranges), isNegated };
}

function joined(ranges: readonly (readonly [number, number])[]): CharacterSet['ranges'] {
  const result: [number, number][] = [];
  for (const [from, to] of ranges.toSorted(([left], [right]) => left - right)) {
    const previous = result.at(-1);
    if (previous !== undefined && from <= previous[1]) previous[1] = Math.max(previous[1], to);
    else result.push([from, to]);
  }
  return result;
}

function codePoint(character: string | undefined): number {
  return character?.codePointAt(0) ?? -1;
}
