/**
 * `key:sub:value` over grains or pillar [salt/utils/data.py subdict_match]. Compares text, in lower
 * case on both sides. Tries every way to cut the expression into a path and a value, the longest
 * path first.
 */

import type { WireValue } from '../payload.ts';
import { pythonStr } from '../python-values.ts';
import {
  type FactMap,
  type FactSource,
  factsOf,
  factValues,
  hasFactKey,
  isFactMap,
  traverseFacts,
} from './facts.ts';
import type { PatternCompiler, TextMatcher } from './pattern.ts';

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
