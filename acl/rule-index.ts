/** Index of rules. It finds the few rules that may match a text. */

import type { CompiledRule } from './compile-rule.ts';

/**
 * Maximum length of the index key of a pattern that has wildcards, in characters. The key is a
 * piece of text between two wildcards. Four characters distinguish thousands of patterns, and most
 * patterns have a piece of this length.
 */
const gramLength = 4;

const none: readonly CompiledRule[] = [];

/**
 * Rules of one action and one effect, indexed by the texts that they match. The index key of a
 * literal is the whole text. The index key of another pattern is a few characters that every match
 * contains. The index chooses characters that few other patterns share. A lookup can also return
 * rules that do not match, so the caller must test each.
 */
export class RuleIndex {
  readonly #literal = new Map<string, CompiledRule[]>();
  /**
   * Rules whose patterns are not literal texts, indexed by a few characters that every match of the
   * pattern contains. Outer key: the number of these characters. Inner key: their hash
   * ({@link gramAt}).
   */
  readonly #grams = new Map<number, Map<number, CompiledRule[]>>();
  readonly #rest: CompiledRule[] = [];

  /** Adds a rule. Rules must be added in policy order. */
  add(rule: CompiledRule): void {
    for (const key of rule.resource.keys) {
      if (key.kind === 'any') addTo(this.#rest, rule);
      else if (key.kind === 'literal')
        addTo(
          valueIn(this.#literal, key.text, () => []),
          rule,
        );
      else addTo(this.#leastUsed(key.pieces), rule);
    }
  }

  /**
   * Returns the first rule that applies, or `undefined`.
   * @param best - rule from another index that applies. The function returns this rule, unless a
   * rule of this index applies and comes earlier in the policy
   */
  first(
    text: string,
    applies: (rule: CompiledRule) => boolean,
    best?: CompiledRule,
  ): CompiledRule | undefined {
    let found = earliest(this.#literal.get(text) ?? none, applies, best);
    for (const [length, lists] of this.#grams) {
      for (let at = 0; at + length <= text.length; at += 1) {
        const rules = lists.get(gramAt(text, at, length));
        if (rules !== undefined) found = earliest(rules, applies, found);
      }
    }
    return earliest(this.#rest, applies, found);
  }

  /** Returns all rules that apply, in policy order. */
  all(text: string, applies: (rule: CompiledRule) => boolean): CompiledRule[] {
    const found = new Set<CompiledRule>();
    this.first(text, (rule) => {
      if (applies(rule)) found.add(rule);
      return false;
    });
    return [...found].sort((a, b) => a.order - b.order);
  }

  #leastUsed(pieces: readonly string[]): CompiledRule[] {
    const longest = Math.max(...pieces.map((piece) => piece.length));
    const length = Math.min(gramLength, longest);
    const lists = valueIn(this.#grams, length, () => new Map<number, CompiledRule[]>());
    return valueIn(lists, leastUsedGram(pieces, length, lists), () => []);
  }
}

function leastUsedGram(
  pieces: readonly string[],
  length: number,
  lists: ReadonlyMap<number, readonly CompiledRule[]>,
): number {
  let best = { gram: 0, uses: Infinity };
  for (const piece of pieces) {
    for (let at = 0; at + length <= piece.length; at += 1) {
      const gram = gramAt(piece, at, length);
      const uses = lists.get(gram)?.length ?? 0;
      if (uses < best.uses) best = { gram, uses };
      if (uses === 0) return gram;
    }
  }
  return best.gram;
}

/**
 * Returns a hash of some characters. The hash is a small integer, because a map finds small
 * integers faster than texts. If different characters have the same hash, the index only returns
 * more rules to test.
 */
function gramAt(text: string, at: number, length: number): number {
  let gram = 0;
  for (let index = at; index < at + length; index += 1) {
    gram = (Math.imul(gram, 173) + text.charCodeAt(index)) & 0x3fff_ffff;
  }
  return gram;
}

function earliest(
  rules: readonly CompiledRule[],
  applies: (rule: CompiledRule) => boolean,
  best: CompiledRule | undefined,
): CompiledRule | undefined {
  for (const rule of rules) {
    if (best !== undefined && best.order < rule.order) return best;
    if (applies(rule)) return rule;
  }
  return best;
}

/** Adds a rule once, even if two of its patterns have the same key. */
function addTo(list: CompiledRule[], rule: CompiledRule): void {
  if (list.at(-1) !== rule) list.push(rule);
}

/** Returns the value of a key, and creates it if it is missing. */
export function valueIn<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  map.set(key, made);
  return made;
}
