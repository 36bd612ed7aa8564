import { isWireMap, type WireMap, type WireValue } from '../payload.ts';
import { pythonStr } from '../python-values.ts';
import type { PatternCompiler, TextMatcher } from './pattern.ts';

/** A map of values: `{key: …}` with text keys, or any keys. */
export type FactMap = WireMap | Map<WireValue, WireValue>;

/** Grains or pillar, looked up by their first key. */
export interface FactSource {
  /** The value under a key; text of a number also finds that number. `undefined`: none. */
  get(key: string): WireValue | undefined;
  /** All of it. */
  whole(): FactMap;
}

/** What is known of a minion; `undefined` is what nobody knows. */
export interface MinionFacts {
  readonly grains: FactSource | undefined;
  readonly pillar: FactSource | undefined;
}

/** What a minion manages besides itself: type → ids. */
export type MinionResources = ReadonlyMap<string, ReadonlySet<string>>;

/** Whether a value is a map. */
function isFactMap(value: WireValue | undefined): value is FactMap {
  return value instanceof Map || isWireMap(value);
}

/** A plain map as a source. */
export function factsOf(map: FactMap): FactSource {
  return { get: (key) => lookUp(map, key), whole: () => map };
}

/** Whether a map has this text as a key. */
function hasFactKey(map: FactMap, key: string): boolean {
  return map instanceof Map ? map.has(key) : Object.hasOwn(map, key);
}

/** The values of a map. */
function factValues(map: FactMap): Iterable<WireValue> {
  return map instanceof Map ? map.values() : Object.values(map);
}

/**
 * The value at the end of a path through maps and lists
 * [salt/utils/data.py traverse_dict_and_list].
 */
export function traverseFacts(
  start: WireValue | undefined,
  path: readonly string[],
): WireValue | undefined {
  let value = start;
  for (const key of path) {
    if (Array.isArray(value)) value = stepIntoList(value, key);
    else value = isFactMap(value) ? lookUp(value, key) : undefined;
  }
  return value;
}

/** A list is stepped into by the first map in it that has the key, or by number. */
function stepIntoList(list: readonly WireValue[], key: string): WireValue | undefined {
  const isIndex = /^\s*[+-]?\d+\s*$/.test(key);
  for (const item of list) {
    if (!isFactMap(item)) continue;
    const found = isIndex ? numberKey(item, key) : textKey(item, key);
    if (found !== undefined) return found;
  }
  return isIndex ? list.at(Number(key)) : undefined;
}

/** Salt reads a key that is not there as YAML, so that `1` finds the number. */
function lookUp(map: FactMap, key: string): WireValue | undefined {
  const value = textKey(map, key);
  return value === undefined ? numberKey(map, key) : value;
}

function textKey(map: FactMap, key: string): WireValue | undefined {
  if (map instanceof Map) return map.get(key);
  return Object.hasOwn(map, key) ? map[key] : undefined;
}

function numberKey(map: FactMap, key: string): WireValue | undefined {
  if (!(map instanceof Map) || !/^[+-]?\d+(\.\d+)?$/.test(key.trim())) return undefined;
  return map.get(Number(key));
}

// `key:sub:value` over grains or pillar [salt/utils/data.py subdict_match]. Compared is text, in
// lower case on both sides. Every way to cut the expression into a path and a value is tried, the
// longest path first.

/** More ways to cut an expression than this are refused: they multiply. */
const maxParts = 100;

/** What was tried of a map already, so that no map is searched twice for the same. */
type SearchedMaps = Map<FactMap, Set<string>>;

/**
 * Compiles an expression.
 * @param compileValue makes the test of a value; it is given lower case
 * @throws SyntaxError when no way to cut the expression gives a value that can be compiled
 */
export function compileFactMatch(
  expression: string,
  delimiter: string,
  compileValue: PatternCompiler,
): (facts: FactSource) => boolean {
  const parts = expression.split(delimiter);
  if (parts.length > maxParts) throw new SyntaxError(`more than ${maxParts} parts`);
  const values = new ValueTests(compileValue);
  values.require(parts.slice(1).map((_, index) => parts.slice(index + 1).join(delimiter)));
  const search = new FactSearch(values);
  return (facts) => search.find(facts, expression, delimiter, new Map());
}

class FactSearch {
  readonly #values: ValueTests;

  constructor(values: ValueTests) {
    this.#values = values;
  }

  find(facts: FactSource, expression: string, delimiter: string, tried: SearchedMaps): boolean {
    const [first = '', ...parts] = expression.split(delimiter);
    if (parts.length === 0) return false;
    const top = facts.get(first);
    for (let cut = parts.length - 1; cut >= 0; cut -= 1) {
      const isEverything = first === '*' && cut === 0;
      const value = isEverything ? facts.whole() : traverseFacts(top, parts.slice(0, cut));
      const wanted = isEverything ? expression : parts.slice(cut).join(delimiter);
      if (value !== undefined && this.#matches(value, wanted, tried)) return true;
    }
    return false;
  }

  #matches(value: WireValue, wanted: string, tried: SearchedMaps): boolean {
    if (isFactMap(value)) return !isEmpty(value) && this.#matchesMap(value, wanted, tried);
    if (!Array.isArray(value)) return this.#values.test(wanted, value);
    return value.some(
      (item) =>
        (isFactMap(item) && this.#matchesMap(item, wanted, tried)) ||
        this.#values.test(wanted, item),
    );
  }

  /** [subdict_match _dict_match]: the delimiter inside is always `:`. */
  #matchesMap(map: FactMap, wanted: string, tried: SearchedMaps): boolean {
    if (isSearched(tried, map, wanted)) return false;
    const isWild = wanted.startsWith('*:');
    const inner = isWild ? wanted.slice(2) : wanted;
    if (inner === '*' || hasFactKey(map, inner)) return true;
    if (this.find(factsOf(map), inner, ':', tried)) return true;
    return isWild && this.#matchesAny(map, inner, tried);
  }

  #matchesAny(map: FactMap, wanted: string, tried: SearchedMaps): boolean {
    for (const value of factValues(map)) {
      if (isFactMap(value)) {
        if (this.#matchesMap(value, wanted, tried)) return true;
      } else if (Array.isArray(value)) {
        if (value.some((item) => this.#values.test(wanted, item))) return true;
      } else if (this.#values.test(wanted, value)) {
        return true;
      }
    }
    return false;
  }
}

/** The compiled tests of an expression's ends, each compiled once. */
class ValueTests {
  readonly #compile: PatternCompiler;
  readonly #tests = new Map<string, TextMatcher>();

  constructor(compile: PatternCompiler) {
    this.#compile = compile;
  }

  /** One of these must compile; of the others Salt says that they match nothing. */
  require(patterns: readonly string[]): void {
    const errors = patterns.flatMap((pattern) => this.#tryToAdd(pattern) ?? []);
    const [first] = errors;
    if (first !== undefined && errors.length === patterns.length) throw first;
  }

  test(pattern: string, value: WireValue): boolean {
    if (!this.#tests.has(pattern)) this.#tryToAdd(pattern);
    return this.#tests.get(pattern)?.(pythonStr(value).toLowerCase()) === true;
  }

  #tryToAdd(pattern: string): SyntaxError | undefined {
    try {
      // Salt lowers a regular expression as a whole, so that \S becomes \s there too.
      this.#tests.set(pattern, this.#compile(pattern.toLowerCase()));
      return undefined;
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      this.#tests.set(pattern, () => false);
      return error;
    }
  }
}

function isSearched(tried: SearchedMaps, map: FactMap, wanted: string): boolean {
  const before = tried.get(map);
  if (before === undefined) tried.set(map, new Set([wanted]));
  else if (before.has(wanted)) return true;
  else before.add(wanted);
  return false;
}

function isEmpty(map: FactMap): boolean {
  return map instanceof Map ? map.size === 0 : Object.keys(map).length === 0;
}
