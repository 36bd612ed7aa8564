/**
 * Matches conditions such as `key:sub:value` against grains or pillar [salt/utils/data.py
 * subdict_match]. Texts are compared in lower case. A condition can be divided into path and value
 * in several ways: `key:sub` and `value`, or `key` and `sub:value`. All ways are tried, the one
 * with the longest path first.
 */

import type { WorkMeter } from '#runtime';
import { pythonStr } from '../python-values.ts';
import type { WireValue } from '../wire-value.ts';
import {
  type FactMap,
  type FactSource,
  factsOf,
  factValues,
  hasFactKey,
  isFactMap,
  stepIntoFacts,
} from './facts.ts';
import type { PatternCompiler, TextMatcher } from './pattern.ts';

/**
 * Maximum number of parts between the delimiters of a condition. More parts mean more ways to
 * divide the condition into path and value.
 */
const maxParts = 100;
/**
 * Maximum number of work steps for one condition and one minion. This is enough for a megabyte of
 * grains.
 */
const maxSearchSteps = 3_000_000;
/** Name of the checked condition in messages about an exceeded work limit. */
const part = 'a condition on grains or pillar';

/** A condition on grains or pillar, such as `os:Debian`, split at its delimiters. */
interface CutExpression {
  readonly text: string;
  readonly first: string;
  /** Parts of the condition after the first delimiter. For `os:Debian`, only `Debian`. */
  readonly parts: readonly string[];
  /**
   * For each element of {@link parts}, the text of the condition from this element to the end. For
   * `a:b:c`, these are `b:c` and `c`.
   */
  readonly rests: readonly string[];
}

/** Intermediate results of one search, so that no map is searched or converted to text twice. */
interface SearchState {
  steps: number;
  /** For each map, the conditions (as text) that this search has already compared with the map. */
  tried?: Map<FactMap, Set<string>>;
  empty?: Map<FactMap, boolean>;
  texts?: Map<WireValue, string>;
}

/**
 * Compiles a condition to a function that decides whether grains or pillar match the condition. The
 * condition is a path of keys and a value. The value can begin after any of the delimiters, so
 * there are several ways to divide the condition.
 * @param compileValue - compiles the value part; it receives lower-case text
 * @param meter - counts the steps of compiling and of each search
 * @throws SyntaxError if the value part cannot be compiled, whichever way the condition is divided
 */
export function compileFactMatch(
  expression: string,
  delimiter: string,
  compileValue: PatternCompiler,
  meter?: WorkMeter,
): (facts: FactSource) => boolean {
  meter?.spend(part, 1 + expression.length);
  if (expression.split(delimiter, maxParts + 1).length > maxParts)
    throw new SyntaxError(`the condition on grains or pillar has more than ${maxParts} parts`);
  const whole = cut(expression, delimiter);
  const values = new ValueTests(compileValue, meter);
  values.require(whole.rests);
  const search = new FactSearch(values, meter);
  return (facts) => search.find(facts, whole, { steps: 0 });
}

function cut(text: string, delimiter: string): CutExpression {
  const [first = '', ...parts] = text.split(delimiter);
  let at = first.length;
  const rests = parts.map((it) => {
    const rest = text.slice(at + delimiter.length);
    at += delimiter.length + it.length;
    return rest;
  });
  return { text, first, parts, rests };
}

class FactSearch {
  readonly #values: ValueTests;
  readonly #meter: WorkMeter | undefined;
  /**
   * Cache of split conditions, by the text of the condition. The search compares them with maps
   * inside grains or pillar. They are always split at `:`, even if the whole condition has another
   * delimiter.
   */
  readonly #cuts = new Map<string, CutExpression>();

  constructor(values: ValueTests, meter: WorkMeter | undefined) {
    this.#values = values;
    this.#meter = meter;
  }

  find(facts: FactSource, expression: CutExpression, state: SearchState): boolean {
    const { first, parts, rests } = expression;
    if (parts.length === 0) return false;
    const values = this.#along(facts.get(first), parts, state);
    this.#spend(state, 8 + parts.length + 12 * values.length);
    for (let at = parts.length - 1; at >= 0; at -= 1) {
      const isEverything = first === '*' && at === 0;
      const value = isEverything ? facts.whole() : values[at];
      const wanted = isEverything ? expression.text : (rests[at] ?? '');
      if (value !== undefined && this.#matches(value, wanted, state)) return true;
    }
    return false;
  }

  /**
   * Starts at `start`, and follows all keys of `path` except the last one. Returns the values on
   * the way: first `start`, then the value of each key. If a key is missing, the list ends with
   * `undefined`.
   */
  #along(
    start: WireValue | undefined,
    path: readonly string[],
    state: SearchState,
  ): (WireValue | undefined)[] {
    const values = [start];
    for (let at = 0; at + 1 < path.length; at += 1) {
      const value = values[at];
      if (value === undefined) break;
      if (Array.isArray(value)) this.#spend(state, 2 * value.length);
      values.push(stepIntoFacts(value, path[at] ?? ''));
    }
    return values;
  }

  #matches(value: WireValue, wanted: string, state: SearchState): boolean {
    if (isFactMap(value)) {
      return !this.#isEmpty(value, state) && this.#matchesMap(value, wanted, state);
    }
    if (!Array.isArray(value)) return this.#values.test(wanted, value, state);
    return value.some(
      (item) =>
        (isFactMap(item) && this.#matchesMap(item, wanted, state)) ||
        this.#values.test(wanted, item, state),
    );
  }

  /**
   * Whether a map matches a condition. Inside a map, the delimiter is always `:` [subdict_match
   * _dict_match].
   */
  #matchesMap(map: FactMap, wanted: string, state: SearchState): boolean {
    this.#spend(state, 30);
    if (isSearched(state, map, wanted)) return false;
    const isWild = wanted.startsWith('*:');
    const inner = isWild ? wanted.slice(2) : wanted;
    if (inner === '*' || hasFactKey(map, inner)) return true;
    if (this.find(factsOf(map), this.#cut(inner, state), state)) return true;
    return isWild && this.#matchesAny(map, inner, state);
  }

  #matchesAny(map: FactMap, wanted: string, state: SearchState): boolean {
    for (const value of factValues(map)) {
      this.#spend(state, 2);
      if (isFactMap(value)) {
        if (this.#matchesMap(value, wanted, state)) return true;
      } else if (Array.isArray(value)) {
        if (value.some((item) => this.#values.test(wanted, item, state))) return true;
      } else if (this.#values.test(wanted, value, state)) {
        return true;
      }
    }
    return false;
  }

  #cut(text: string, state: SearchState): CutExpression {
    this.#spend(state, text.length / 16);
    const known = this.#cuts.get(text);
    if (known !== undefined) return known;
    this.#spend(state, text.length);
    const made = cut(text, ':');
    if (made.parts.length >= maxParts) this.#meter?.refuse(part, maxParts, 'parts');
    this.#cuts.set(text, made);
    return made;
  }

  #isEmpty(map: FactMap, state: SearchState): boolean {
    state.empty ??= new Map();
    const known = state.empty.get(map);
    if (known !== undefined) return known;
    const size = map instanceof Map ? map.size : Object.keys(map).length;
    this.#spend(state, 2 * size);
    state.empty.set(map, size === 0);
    return size === 0;
  }

  #spend(state: SearchState, steps: number): void {
    spend(this.#meter, state, steps);
  }
}

/**
 * Compiled tests for the value in a condition such as `os:Debian`. In a condition with several
 * delimiters, the value may begin after any of them. Each possible value is compiled once.
 */
class ValueTests {
  readonly #compile: PatternCompiler;
  readonly #meter: WorkMeter | undefined;
  readonly #tests = new Map<string, TextMatcher>();

  constructor(compile: PatternCompiler, meter: WorkMeter | undefined) {
    this.#compile = compile;
    this.#meter = meter;
  }

  /**
   * Compiles the patterns. As in Salt, a pattern that cannot be compiled matches nothing.
   * @throws SyntaxError if none of the patterns can be compiled
   */
  require(patterns: readonly string[]): void {
    const errors = patterns.flatMap((pattern) => this.#tryToAdd(pattern) ?? []);
    const [first] = errors;
    if (first !== undefined && errors.length === patterns.length) throw first;
  }

  test(pattern: string, value: WireValue, state: SearchState): boolean {
    if (!this.#tests.has(pattern)) this.#tryToAdd(pattern);
    const text = this.#textOf(value, state);
    return this.#tests.get(pattern)?.(text) === true;
  }

  #textOf(value: WireValue, state: SearchState): string {
    if (typeof value === 'string') {
      spend(this.#meter, state, 2 + value.length / 8);
      return value.toLowerCase();
    }
    spend(this.#meter, state, 4);
    if (value === null || typeof value !== 'object') return pythonStr(value).toLowerCase();
    state.texts ??= new Map();
    const known = state.texts.get(value);
    if (known !== undefined) return known;
    const text = pythonStr(value).toLowerCase();
    spend(this.#meter, state, text.length * 2);
    state.texts.set(value, text);
    return text;
  }

  #tryToAdd(pattern: string): SyntaxError | undefined {
    try {
      // Salt converts the whole pattern to lower case, so \S becomes \s in Salt as well.
      this.#tests.set(pattern, this.#compile(pattern.toLowerCase(), this.#meter));
      return undefined;
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      this.#tests.set(pattern, () => false);
      return error;
    }
  }
}

/**
 * Counts steps of a search, and limits the steps for one minion. Other work can run only between
 * two minions, so the search in one minion must be short.
 */
function spend(meter: WorkMeter | undefined, state: SearchState, steps: number): void {
  if (meter === undefined) return;
  state.steps += steps;
  if (state.steps > maxSearchSteps) meter.refuse(part, maxSearchSteps, 'steps for one minion');
  meter.spend(part, steps);
}

function isSearched(state: SearchState, map: FactMap, wanted: string): boolean {
  state.tried ??= new Map();
  const before = state.tried.get(map);
  if (before === undefined) state.tried.set(map, new Set([wanted]));
  else if (before.has(wanted)) return true;
  else before.add(wanted);
  return false;
}
